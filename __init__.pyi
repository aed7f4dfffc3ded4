"""The one list of public names, and the module that defines each."""

from .api import available_passes as available_passes
from .api import check as check
from .api import check_file as check_file
from .api import fix as fix
from .api import load as load
from .api import load_tree as load_tree
from .api import rewrite as rewrite
from .api import verify as verify
from .api.certificates import certify as certify
from .api.explanations.lookup import describe as describe
from .api.extensions import add_emitter as add_emitter
from .api.extensions import add_lowering as add_lowering
from .api.extensions import add_operator as add_operator
from .api.extensions import load_extension as load_extension
from .api.extensions import parse_pass as parse_pass
from .api.findings import Findings as Findings
from .api.fixes import Fixed as Fixed
from .api.model_diff import diff_models as diff_models
from .api.pipelines import compare_data as compare_data
from .api.targets import Rewritten as Rewritten
from .api.targets import rewrite_file as rewrite_file
from .api.targets import save as save
from .api.weights import convert_checkpoint as convert_checkpoint
from .api.weights import diff as diff
from .api.weights import repair_checkpoint as repair_checkpoint
from .checkpoints.diff import Diff as Diff
from .diagnosis import unique_names as unique_names
from .frontends import InputSpec as InputSpec
from .ir import Graph as Graph
from .ir import ModelError as ModelError
from .ir import RegraftError as RegraftError
from .ir import UnsupportedError as UnsupportedError
from .ir import UsageError as UsageError
from .passes import default_pipeline as default_pipeline
from .passes.base import Change as Change
from .passes.base import Pass as Pass
from .process.progress import Reporter as Reporter
from .process.progress import reporting as reporting
from .verification import Report as Report
from .verification.certificate import Certified as Certified
from .verification.verify_written import VerificationError as VerificationError

__version__: str
