"""From exact integers to the analyst's answer: noise, estimates, finishing SQL, error bars."""
