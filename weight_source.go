package llmrun

import (
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec/modelfile"
)

// errImportFirst reports that weights do not fit, and that the options permit to import the
// model, which streams faster.
var errImportFirst = errors.New("the weights do not fit, and the model can be imported into the cache")

// noteStreaming tells the user that the weights which a plan streams are converted.
func (o *Options) noteStreaming(f *modelfile.Files, a *admission) {
	if o.Notify == nil || a.plan.Resident() || a.shape.Convert == 0 {
		return
	}
	slower := "than streaming an imported model (llmrun import)"
	if o.Exact || o.Lab.W8A8 != nil {
		slower = "than a budget that holds them" // a pack stores other weights
	}
	if p := f.Packed(); p != nil && p.HasPlanes() && !o.Exact {
		slower = "than a budget that holds the high planes, and than a pack without planes"
	}
	o.Notify(fmt.Sprintf("the weights of %s do not fit into the budget: each pass converts those that are not in memory while it reads them, which is slower %s", f.Path, slower))
}
