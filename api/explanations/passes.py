"""Pages of findings of passes that are their authors' to mend; the others have the pages of their passes."""

from __future__ import annotations

from .page import Page

PAGES: dict[str, Page] = {
    "RP101": Page(
        "Parameters were named before they got a place of their own, mostly by insert_child_to_cell or in a "
        "list. MindSpore's optimizers refuse such a net, and save_checkpoint keeps one tensor of every two.",
        'for name in ("group1", "group2"):\n    self.insert_child_to_cell(name, make_group())',
        "setattr(self, name, make_group()), or `regraft.unique_names(net)` before the optimizer; "
        "`regraft fix` edits the file, `regraft repair-checkpoint` the saved files.",
    ),
    "RP102": Page(
        "A parameter has the name that another one's place would give it: loading by name swaps them.",
        'self.a = Parameter(x, name="b"); self.b = Parameter(y, name="a")',
        "Name each by its attribute; `regraft rewrite` does.",
    ),
    "RP103": Page(
        "A parameter's name is not the path of the module that holds it. That is allowed.",
        'self.scale = Parameter(x, name="gain")',
        "Nothing; `regraft rewrite` names it by its path, and renames.json says so.",
    ),
    "DM101": Page(
        "One module is registered twice: tools that count parameters or draw the net by modules see two.",
        "self.layer0 = nn.Sequential(self.base.conv1, self.base.bn1)  # beside self.base",
        "Keep one of the two if sharing is not intended; the finding names the line.",
    ),
    "DM102": Page(
        "One module is called several times, with the same weights.",
        "return self.block(self.block(x))",
        "Nothing, if sharing is intended; otherwise construct a module for each call.",
    ),
    "DM103": Page(
        "Modules have one structure and their own weights, so the emitted source has one class for all.",
        "nn.Sequential(Block(8), Block(8))",
        "Nothing: the finding describes the emitted source.",
    ),
    "DU101": Page(
        "A module is registered but never called: its weights are saved and never trained.",
        "self.fc = nn.Linear(8, 10)  # and forward returns without it",
        "Call it, or delete the line that registers it; `regraft rewrite` leaves it out, with a note.",
    ),
    "DU102": Page(
        "No operator uses the parameter: no gradient reaches it.",
        "self.scale = nn.Parameter(torch.ones(1))  # and forward does not read it",
        "Use it, or delete it.",
    ),
    "DU104": Page(
        "A parameter that nothing uses has the name of one that is used: a checkpoint may hold either.",
        'self.old = Parameter(x, name="w"); self.new = Parameter(y, name="w")',
        "Delete the one that is not used, or give it another name.",
    ),
    "DU105": Page(
        "MXNet's BatchNorm has fix_gamma=True by default: it uses a gamma of 1 and ignores the stored one.",
        'mx.sym.BatchNorm(data, name="bn0")  # and net-0000.params holds a gamma of 0.5',
        "Give a port a gamma of ones, as `regraft rewrite` does; give fix_gamma=False where gamma is meant.",
    ),
    "DU106": Page(
        "Training alone calls the module, as it does an auxiliary head; the output is for inference.",
        "aux = self.aux(x) if self.training else None",
        "Nothing for inference; `regraft rewrite` keeps its weights in a PyTorch output alone. A port that "
        "is to be trained needs the module, and its call, by hand.",
    ),
    "TW102": Page(
        "Two parameters share one memory: the source trains and saves them as one, a copy without the "
        "sharing as two.",
        "self.head.weight = self.embed.weight",
        "Nothing: the rewrite keeps them one.",
    ),
    "TW104": Page(
        "Two parameters have equal values: they may have been one parameter before the file was saved.",
        "an exported symbol with embed_weight and head_weight of the same values",
        "If they are meant to be one: --pass tie-weights:tie=embed_weight+head_weight.",
    ),
    "TW108": Page(
        "Branches that share a BatchNormalization update its running statistics once each in every step.",
        "a siamese net whose branches are one module",
        "Nothing for inference; in training, run the branches as one batch to update them once.",
    ),
    "TW109": Page(
        "Two branches have the same layers under two prefixes, with separate weights: a siamese net whose "
        "sharing was lost.",
        "a symbol with left_conv0 and right_conv0, whose author meant one",
        "If they are meant to be one, use the option that the finding names.",
    ),
    "IN102": Page(
        "A parameter's initial distribution is neither stated nor visible in its values: a new net starts "
        "differently.",
        "self.w = nn.Parameter(torch.load('w.pt'))",
        "State it where the parameter is made, with nn.init or an initializer. Emitted source takes the "
        "checkpoint's values.",
    ),
    "FS101": Page(
        "The model overwrites a buffer in evaluation mode, too; a written file cannot, and keeps its value.",
        "self.count += 1  # in forward",
        "Guard it with `if self.training`, or accept the constant value.",
    ),
}
