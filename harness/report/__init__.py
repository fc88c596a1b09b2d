"""What a person sees of a run and of a judgement: the page, the terminal, one value explained."""
