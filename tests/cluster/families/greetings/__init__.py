"""A small family, built as docs/new-family.md says: greetings on so many cards."""
