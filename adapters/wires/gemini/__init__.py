"""Gemini's generateContent: the protocol of Google's Gemini API, and of Vertex AI."""
