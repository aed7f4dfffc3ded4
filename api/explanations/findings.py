"""Pages of the diagnosis's findings."""

from __future__ import annotations

from .page import Page

PAGES: dict[str, Page] = {
    "FC101": Page(
        "MindSpore calls `construct`; a Cell with `forward` alone computes nothing.",
        "class Net(nn.Cell):\n    def forward(self, x): return self.dense(x)",
        "Call the method `construct`; `regraft fix` does so.",
    ),
    "FC102": Page(
        "PyTorch calls `forward`; a Module with `construct` alone raises NotImplementedError.",
        "class Net(nn.Module):\n    def construct(self, x): return self.linear(x)",
        "Call the method `forward`; `regraft fix` does so.",
    ),
    "LK101": Page(
        "A layer's setting differs from the reference's layer.",
        "nn.BatchNorm2d(8, eps=1e-3)  # where the reference has 1e-5",
        "Write the reference's value; `regraft fix MODEL --like REFERENCE` does so.",
    ),
    "LK102": Page(
        "A layer draws its weights from another distribution than the reference's.",
        "nn.Conv2d(3, 8, 3)  # MindSpore's default against torch's in the reference",
        "State it: weight_init=HeUniform(math.sqrt(5)); `regraft fix MODEL --like REFERENCE` does so.",
    ),
    "LK103": Page(
        "A parameter is trained although the reference freezes it, or frozen although the reference trains "
        "it.",
        "self.backbone = Backbone()  # whose parameters have requires_grad=False in the reference",
        "Set requires_grad in the constructor; `regraft fix MODEL --like REFERENCE` freezes the right "
        "parameters.",
    ),
    "LK104": Page(
        "Outputs or a training step differ from the reference's, and no setting of a layer explains it.",
        "return ops.softmax(x, 1)  # where the reference has the last axis",
        "Fix the fault that the finding names; `regraft verify REFERENCE MODEL --train` shows where it "
        "begins.",
    ),
    "LK105": Page(
        "A Cell with auto_prefix=False leaves its parts' paths out of the names that a checkpoint has.",
        "super().__init__(auto_prefix=False)  # `head.weight` of the reference is `weight` here",
        "auto_prefix=True, as `regraft fix MODEL --like REFERENCE` writes, or rename the checkpoint's keys.",
    ),
    "NC101": Page(
        "The net renames its parameters in its first call, so a checkpoint has other names before and after.",
        "save_checkpoint(net, 'a.ckpt'); net(x); load_checkpoint('a.ckpt', net)",
        "Name the parameters where they are made, or call `regraft.unique_names(net)` before all else.",
    ),
    "NP101": Page(
        "A `construct` computes with NumPy: a graph cannot hold that, and gradients stop there.",
        "return ops.relu(ms.Tensor(np.abs(x.asnumpy())))",
        "Use the function of MindSpore: ops.abs(x).",
    ),
    "PL101": Page(
        "Layers in a plain list or dict are not children of the Cell or Module: training and checkpoints "
        "skip them.",
        "self.layers = [nn.Dense(4, 4) for _ in range(3)]",
        "self.layers = nn.CellList([…]), or nn.ModuleList in PyTorch; `regraft fix` does so.",
    ),
    "PL102": Page(
        "Parameters in a plain list or dict are not registered: training and checkpoints skip them.",
        "self.scales = [Parameter(Tensor(1.0)) for _ in range(3)]",
        "ParameterTuple, or nn.ParameterList in PyTorch; `regraft fix` does so.",
    ),
    "PN101": Page(
        "A Parameter without a name gets a number from MindSpore, and checkpoints follow the number.",
        "self.scale = Parameter(Tensor(1.0))  # in a tuple or list",
        'Parameter(Tensor(1.0), name="scale").',
    ),
    "PN102": Page(
        "A Parameter keeps its name when it is assigned to another layer, and checkpoints go by names: a "
        "value stored under the new path, as torch stores it, is not loaded, without an error.",
        "self.layer1.weight = self.layer2.weight  # called layer2.weight, also in layer1",
        'self.layer1.weight.name = "layer1.weight" after it, as `regraft fix` writes.',
    ),
    "PN103": Page(
        "Layers share a Parameter. MindSpore saves it once, under the path of the first layer, and reads "
        "no other key; torch's files have it under every path.",
        "self.head.weight = self.embed.embedding_table  # saved as embed.embedding_table alone",
        "Nothing, if the layers are to share it. `regraft convert-checkpoint --like MODEL` writes the key "
        "that is read.",
    ),
    "RF101": Page(
        "The file raises after the model's definition. regraft checked the model as it was at that point.",
        "optimizer = nn.Adam(net.trainable_params())  # which refuses two parameters of one name",
        "Fix the other findings first: this one is often their symptom.",
    ),
    "SI101": Page(
        "A SequentialCell runs only the cells passed to its constructor or appended later.",
        'body = nn.SequentialCell([conv]); body.insert_child_to_cell("more", relu)',
        "body.append(relu), which also names its parameters; `regraft fix` does so.",
    ),
    "TL101": Page(
        "A layer is constructed but not kept.",
        "def __init__(self): nn.Dense(4, 4)",
        "self.dense = nn.Dense(4, 4), or delete the line.",
    ),
    "TL102": Page(
        "A layer is constructed in each call, with new weights that nothing trains.",
        "def construct(self, x): return nn.Dense(4, 4)(x)",
        "Construct it in `__init__` and call it here.",
    ),
}
