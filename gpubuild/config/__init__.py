"""targets.yaml to :class:`gpubuild.model.project.Project`, with a mark on every mistake."""
