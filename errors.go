package llmrun

import (
	"errors"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/jinja"
	"github.com/llmrun/llmrun/text/sample"
	"github.com/llmrun/llmrun/tiering"
)

// What can go wrong, to be found with errors.Is. Messages name the file and
// the offset or field, and what to do.
var (
	// ErrOptions: an option is out of range.
	ErrOptions = errors.New("invalid option")
	// ErrFormat: a file contradicts its format or itself.
	ErrFormat = store.ErrFormat
	// ErrModel: a file is well formed, but what it says about its network
	// does not fit together.
	ErrModel = arch.ErrModel
	// ErrNoTokenizer: the model has no tokenizer, so it takes and gives token
	// ids only.
	ErrNoTokenizer = modelfile.ErrNoTokenizer
	// ErrSampling: a sampling parameter is out of range.
	ErrSampling = sample.ErrParams
	// ErrKernel: arithmetic does not work on this processor, as a test before
	// loading found.
	ErrKernel = quant.ErrKernel
	// ErrNonFinite: the model computed NaN or infinity.
	ErrNonFinite = sample.ErrNonFinite
	// ErrContextFull: the session holds as many tokens as it may. With
	// GenerateOptions.Overflow it goes on and forgets old text.
	ErrContextFull = exec.ErrContextFull
	// ErrToken: a token id is outside the vocabulary.
	ErrToken = exec.ErrToken
	// ErrNoRoom: a pack does not fit on the disk or into its directory.
	ErrNoRoom = pack.ErrNoRoom
	// ErrReplaced: the pack that was opened is not in its place any more.
	ErrReplaced = pack.ErrReplaced
	// ErrLocked: another process is writing the same pack, or the session of that name
	// is in use.
	ErrLocked = vfs.ErrLocked
	// ErrBudget: memory that may be used is spent.
	ErrBudget = tiering.ErrBudget
	// ErrTemplate: the model's chat template refuses the conversation, for
	// instance because roles do not alternate; the message is the template's.
	ErrTemplate = jinja.ErrRaised
	// ErrClosed: the engine or session was closed, perhaps while it was at work.
	ErrClosed = errors.New("the engine or session is closed")
	// ErrBusy: the session is generating already. Use another session, or wait
	// until the loop over the first generation has ended.
	ErrBusy = errors.New("the session is already generating")
)

// IsUnsupported reports whether err says that a file is sound but asks for
// something that is not offered; the message says what.
func IsUnsupported(err error) bool {
	return errors.Is(err, store.ErrUnsupported) || errors.Is(err, arch.ErrUnsupported) || errors.Is(err, jinja.ErrUnsupported)
}
