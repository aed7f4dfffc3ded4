"""From drafts to classes: drafts with one structure share a class, with arguments where they differ."""
