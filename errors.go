package llmrun

import (
	"errors"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/allowance"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/jinja"
	"github.com/llmrun/llmrun/text/sample"
	"github.com/llmrun/llmrun/tiering"
)

// Sentinel errors; test for them with errors.Is. The message of an error names the file and
// the offset or field, and what to do.
var (
	// ErrOptions reports that an option is out of range or conflicts with another one.
	ErrOptions = errors.New("invalid option")
	// ErrFormat reports that a file violates its format.
	ErrFormat = store.ErrFormat
	// ErrModel reports that a well-formed file describes an inconsistent network.
	ErrModel = arch.ErrModel
	// ErrAdapter reports that an adapter is for another model.
	ErrAdapter = modelfile.ErrAdapter
	// ErrNoAdapter reports that a session asks for an adapter with a name that the engine does not have.
	ErrNoAdapter = exec.ErrNoAdapter
	// ErrNoTokenizer reports that the model has no tokenizer. Such a model accepts and
	// returns token ids only; see [Session.GenerateIDs].
	ErrNoTokenizer = modelfile.ErrNoTokenizer
	// ErrSampling reports that a sampling parameter is out of range.
	ErrSampling = sample.ErrParams
	// ErrKernel reports that a kernel computes wrong results on this processor. The engine
	// tests its kernels before it loads a model.
	ErrKernel = quant.ErrKernel
	// ErrNonFinite reports that the model computed NaN or infinity.
	ErrNonFinite = sample.ErrNonFinite
	// ErrContextFull reports that the sequence exceeds the session's limit.
	// [GenerateOptions].Overflow can drop old tokens instead.
	ErrContextFull = exec.ErrContextFull
	// ErrToken reports that a token id is outside the vocabulary.
	ErrToken = exec.ErrToken
	// ErrNoRoom reports that the disk, or the cache directory's limit, has no room.
	ErrNoRoom = pack.ErrNoRoom
	// ErrWritesSpent reports that keys and values were not written, because
	// [CacheOptions].DailyWrites would be exceeded.
	ErrWritesSpent = allowance.ErrSpent
	// ErrReplaced reports that the file of an open pack was moved or replaced.
	ErrReplaced = pack.ErrReplaced
	// ErrNotPrivate reports that other users of the machine may change a cache directory, so
	// that it is not used. The message says why and what to do.
	ErrNotPrivate = vfs.ErrNotPrivate
	// ErrLocked reports that another process is writing the same pack, or that the session of
	// that name is in use.
	ErrLocked = vfs.ErrLocked
	// ErrBudget reports that the memory budget does not suffice.
	ErrBudget = tiering.ErrBudget
	// ErrTemplate reports that the model's chat template rejects the conversation, for
	// example because roles do not alternate. The message comes from the template.
	ErrTemplate = jinja.ErrRaised
	// ErrClosed reports that the engine or session was closed, perhaps during the call.
	ErrClosed = errors.New("the engine or session is closed")
	// ErrBusy reports that the session is generating. Use another session, or end the loop
	// over the first generation.
	ErrBusy = errors.New("the session is already generating")
)

// IsUnsupported reports whether err says that a valid file needs a feature that this package
// does not support. The message names the feature.
func IsUnsupported(err error) bool {
	return errors.Is(err, store.ErrUnsupported) || errors.Is(err, arch.ErrUnsupported) || errors.Is(err, jinja.ErrUnsupported)
}
