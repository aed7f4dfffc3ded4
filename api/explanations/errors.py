"""Pages of the errors."""

from __future__ import annotations

from .page import Page

PAGES: dict[str, Page] = {
    "E001": Page(
        "An option, an argument or a key of a configuration has a wrong form.",
        "regraft check net.py:Net --input 2,3,32,32",
        "Use the form that the hint names: here `--input 2x3x32x32`. `regraft COMMAND --help` has examples.",
    ),
    "E002": Page(
        "A file or folder of that name exists, or the place is not writable. regraft changed nothing.",
        "regraft rewrite net.py:Net --input 2x3x32x32 -o net.onnx  # a second time",
        "Give another output, or --force to replace the files.",
    ),
    "E003": Page(
        "More than half of the trained parameters belong to modules without a call, and would be left out.",
        "self.base = resnet18()  # and only self.base.conv1 is called",
        "`regraft check` with the same inputs names the modules; call them, or give --allow-removal.",
    ),
    "E101": Page(
        "A file is missing, ends early, or violates its format.",
        "regraft show net-symbol.json  # whose net-0000.params was copied half",
        "Copy or export the file again; the place names the file and, if known, the part.",
    ),
    "E102": Page(
        "The Python file raised an exception, or does not define that name.",
        "regraft check net.py:Nett  # the class is called Net",
        "Look at the line that the message names. Give arguments of the constructor with --arg NAME=VALUE.",
    ),
    "E103": Page(
        "The inputs are too few, too many, or of a shape or type that the model raises for.",
        "regraft show net.py:Net --input 2x4x32x32  # the first convolution has 3 channels",
        "Give one --input NAME=SHAPE[:DTYPE] for each input of the model; the names are in the message.",
    ),
    "E104": Page(
        "torch.export or MindSpore's compiler cannot make a graph of the model, mostly because Python "
        "decides something by the values of tensors.",
        "if x.sum() > 0: x = x * 2  # in a forward",
        "Write it with tensors (torch.where, ops.select) at the line that the message names, or follow the "
        "hint.",
    ),
    "E105": Page(
        "The model is of a framework, or needs a part of one, that is not installed.",
        "regraft check net.py:Net  # a torch model where only MindSpore is installed",
        'Install what the message names: pip install "regraft[torch]", or "regraft[mindspore]".',
    ),
    "E106": Page(
        "A file states, or a command asks for, a size beyond regraft's limits or the available memory.",
        "regraft show net.py:Net --input 100000x3x224x224",
        "Give a smaller example: the batch stays symbolic. A file that states such a size is damaged.",
    ),
    "E107": Page(
        "Opening the file with its framework's own reader may run code: it pickles objects or names code.",
        "regraft show program.pt2  # that was saved with pickled inputs",
        "If you trust its author, --trust lets torch or MindSpore open it; else have it saved without code.",
    ),
    "E201": Page(
        "The model has operators that regraft does not know; the message lists all of them with their "
        "places.",
        "torch.special.airy_ai(x)",
        "Write it in other operators, add a lowering of your own (docs/en/guides/extending.md), or for "
        "MindSpore or PyTorch source give --partial, which leaves a Cell or module to write by hand for "
        "each.",
    ),
    "E202": Page(
        "An operator states an attribute that its lowering does not read, so its meaning would be lost.",
        "a symbol of a newer MXNet whose Convolution has a further attribute",
        "Leave the attribute out of the model, or report it: a lowering is a few lines.",
    ),
    "E203": Page(
        "An operator is known, but not in the form that it has here.",
        "nn.MaxPool2d(2, return_indices=True) before an operator that needs other indices",
        "Use the form that the hint names.",
    ),
    "E301": Page(
        "A graph breaks a rule that all graphs keep. The pass or frontend that made it is named.",
        "a pass of your own that removes an operator that is still used",
        "In a pass of your own, replace the uses of a value before you remove its node. Without one, it is "
        "a fault of regraft: please report it.",
    ),
    "E401": Page(
        "A text is not in the form of the IR that `regraft show --ir` prints; the line is named.",
        'graph main { %x = input "x" : f32[2,3  }',
        "docs/en/explanation/ir.md describes the form.",
    ),
    "E501": Page(
        "A pass is asked for something that the model does not have or allow.",
        "regraft rewrite … --pass tie-weights:tie=embed.weight+hed.weight",
        "The hint lists the valid values; `regraft explain PASS` says what the pass refuses.",
    ),
    "E502": Page(
        "No pass, option of a pass or code has that name, or the class in the file is not a pass.",
        "regraft rewrite … --pass tie-weight",
        "`regraft passes` lists the passes, `regraft explain` the codes, docs/en/guides/extending.md makes "
        "your own.",
    ),
    "E601": Page(
        "The target has no form for some operators, and they have no expansion into others.",
        "regraft rewrite net.py:Net … --to mxnet  # with an operator that MXNet never had",
        "Choose another target, write that part in other operators, or add an emitter "
        "(docs/en/guides/extending.md).",
    ),
    "E602": Page(
        "The target cannot hold the model in the form that it has here.",
        "a checkpoint of over 2 GB in MindSpore's .ckpt, whose format ends there",
        "Follow the hint: for a large checkpoint, --checkpoint-format safetensors.",
    ),
    "E701": Page(
        "Source and target ran on the same inputs, and their values differ by more than rounding, or their "
        "equality is not proved. regraft wrote nothing.",
        "regraft rewrite net.py:Net … --pass relu_to_gelu.py:ReluToGelu",
        "Look at the first module that diverges, which the message names; -v shows all. If a pass of your "
        "own changes the computation on purpose, give --no-verify.",
    ),
    "E702": Page(
        "A model failed to run for the comparison: it raises, or its runtime lacks an operator.",
        "regraft verify net.py:Net net.onnx  # with an operator that ONNX Runtime has on GPUs only",
        "Look at the message of the runtime. --no-verify writes the file without a comparison.",
    ),
    "E703": Page(
        "Two nets have layers of one shape that neither names nor neighbours distinguish.",
        "regraft verify theirs.py:Net mine.py:Net  # both with four equal branches under other names",
        'Say it with --map FILE: {"branch1": "path_a", "branch2": "path_b"}.',
    ),
    "E704": Page(
        "The function that --recipe names raises, or does not return a recipe.",
        "def recipe(net): return optimizer",
        'Return a dict: {"loss": loss, "optimizer": optimizer, "schedule": schedule}.',
    ),
    "E801": Page(
        "The tensors of a checkpoint differ from those of the map or net that it should fit.",
        "regraft convert-checkpoint other.pth model.ckpt --map out/renames.json",
        "The message lists the tensors on one side only, with similar names. Give the map that regraft "
        "wrote with this net, or --like net.py:Net, which pairs by name and shape.",
    ),
}
