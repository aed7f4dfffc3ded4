"""A user-defined pass: `regraft rewrite MODEL -o OUT --pass relu_to_gelu.py:ReluToGelu --no-verify`."""

from dataclasses import dataclass
from typing import ClassVar

import regraft


@dataclass(frozen=True)
class ReluToGelu(regraft.Pass):
    """Replace every ReLU by a GELU: the model computes something else and must be trained again."""

    name: ClassVar[str] = "relu-to-gelu"
    codes: ClassVar[dict[str, str]] = {"RG101": "a ReLU becomes a GELU"}

    approximate: str = "none"  # an option: --pass relu_to_gelu.py:ReluToGelu:approximate=tanh

    def run(self, graph: regraft.Graph) -> list[regraft.Change]:
        changes = []
        for node in list(graph.operators()):
            if node.op_type == "Relu":
                node.op_type = "Gelu"
                node.attributes = {"approximate": self.approximate}
                changes.append(regraft.Change("RG101", "is a GELU", node.location))
        return changes
