"""Tables as models for independent checkers, and what these find: SPIN and TLC."""
