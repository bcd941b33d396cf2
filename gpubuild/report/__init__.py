"""Reports and drawings of builds."""
