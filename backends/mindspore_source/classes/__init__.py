"""From definitions to classes: those of one structure share a class, with arguments where they differ."""
