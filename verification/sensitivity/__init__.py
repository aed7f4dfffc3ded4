"""Which parameters a comparison notices: each is changed, and what that moves is measured."""
