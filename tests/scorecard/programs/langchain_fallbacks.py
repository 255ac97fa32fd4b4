"""LangChain with a fallback, as its documentation shows it."""

from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="gpt-5").with_fallbacks([ChatOpenAI(model="gpt-5-mini")])
print(model.invoke("What should a caller expect?").content)
