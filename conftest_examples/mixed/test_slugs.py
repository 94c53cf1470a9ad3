# Ordinary tests run first, as ever; trials fly afterwards, in the same session and the same report.
from slugs import slug


def test_words_are_joined_by_dashes():
    assert slug("Hello, World!") == "hello-world"


def test_nothing_is_left_of_signs():
    assert slug("--?--") == ""
