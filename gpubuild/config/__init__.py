"""targets.yaml to :class:`gpubuild.model.project.Project`, with the location of every error."""
