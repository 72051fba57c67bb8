package modelfile

import (
	"fmt"
	"math"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/vfs"
)

// factorNames are the endings of the names of an adapter's factors.
type factorNames struct{ a, b string }

var (
	peftFactors = factorNames{".lora_A.weight", ".lora_B.weight"}
	ggufFactors = factorNames{".weight.lora_a", ".weight.lora_b"}
)

// isGGUFAdapter reports whether an adapter is a GGUF file, not a directory in peft's format.
func isGGUFAdapter(path string) bool { return strings.HasSuffix(strings.ToLower(path), ".gguf") }

// addGGUFAdapter adds an adapter in a GGUF file to the deltas of m. Its tensors have the names and the order of
// rows of the GGUF model.
func (f *Files) addGGUFAdapter(m *merged, fsys vfs.FS, path string, factor float32) error {
	src, err := gguf.Open(fsys, path)
	if err != nil {
		return err
	}
	defer src.Close()
	format := &adapterFormat{factors: ggufFactors, gguf: true, adjacent: m.adjacent}
	alpha, err := f.ggufAlpha(src.Meta(), format)
	if err != nil {
		return err
	}
	scale := func(_ string, rank int) float32 {
		if alpha == 0 {
			return factor // as the file's other readers do
		}
		return float32(alpha/float64(rank)) * factor
	}
	return m.add(src, format, scale, path, nameRoot{})
}

// ggufAlpha checks the description of an adapter and returns its alpha. For a safetensors model it notes the order of rows.
func (f *Files) ggufAlpha(meta *gguf.Metadata, format *adapterFormat) (float64, error) {
	for key, want := range map[string]string{"general.type": "adapter", "adapter.type": "lora"} {
		if value, _, err := meta.String(key); err != nil {
			return 0, err
		} else if value != want {
			return 0, fmt.Errorf("%w: %s: %s is %q; a LoRA adapter has %q", arch.ErrUnsupported, meta.Path(), key, value, want)
		}
	}
	const architecture = "general.architecture"
	theirs, ok, err := meta.String(architecture)
	if err != nil {
		return 0, err
	}
	if f.meta == nil {
		if format.adjacent, ok = f.family.StoredAs(theirs); !ok {
			return 0, fmt.Errorf("%w: %s: the adapter is for architecture %q, which is not that of %s in a GGUF file", ErrAdapter, meta.Path(), theirs, f.Path)
		}
	} else if ours, _, _ := f.meta.String(architecture); ok && theirs != ours {
		return 0, fmt.Errorf("%w: %s: the adapter is for architecture %q, the model has %q", ErrAdapter, meta.Path(), theirs, ours)
	}
	alpha, _, err := meta.Float("adapter.lora.alpha")
	if err == nil && (math.IsNaN(alpha) || math.IsInf(alpha, 0)) {
		err = meta.Errorf("adapter.lora.alpha", "is not finite")
	}
	return alpha, err
}

// factors returns the module that a tensor changes and the other factor, if it is the first one.
func (n factorNames) factors(src store.Source, t *store.Tensor, path string) (module string, other store.Tensor, ok bool, err error) {
	module, ok = strings.CutSuffix(t.Name, n.a)
	if !ok {
		if !strings.HasSuffix(t.Name, n.b) {
			err = fmt.Errorf("%w: %s: the adapter contains tensor %s, which is not a LoRA factor", arch.ErrUnsupported, path, t.Name)
		}
		return "", other, false, err
	}
	if other, ok = src.Tensor(module + n.b); !ok {
		err = fmt.Errorf("%w: %s: tensor %s%s is missing", arch.ErrModel, path, module, n.b)
	}
	return module, other, ok, err
}
