"""What a request, a reply and the growing transcript between them are."""
