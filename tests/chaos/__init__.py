"""Known bugs of this kind of broker on real processes: with their switch they show, without it they do not."""
