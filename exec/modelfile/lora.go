package modelfile

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// maxRank limits the rank of an adapter; known adapters have up to a few hundred.
const maxRank = 4096

// LoraConfig contains the fields of a peft adapter_config.json that the engine reads.
type LoraConfig struct {
	PeftType      string             `json:"peft_type"`
	Rank          int                `json:"r"`
	Alpha         float64            `json:"lora_alpha"`
	RankPattern   map[string]int     `json:"rank_pattern"`
	AlphaPattern  map[string]float64 `json:"alpha_pattern"`
	RSLoRA        bool               `json:"use_rslora"`
	DoRA          bool               `json:"use_dora"`
	FanInFanOut   bool               `json:"fan_in_fan_out"`
	Bias          string             `json:"bias"`
	ModulesToSave []string           `json:"modules_to_save"`
}

// delta is the change of one tensor by an adapter: scale·B·A.
type delta struct {
	rank  int
	scale float32
	a     []float32 // [rank, cols]
	b     []float32 // [rows, rank]
}

// merged is a model whose tensors include adapters. A changed tensor appears as F32,
// whatever its type on flash.
type merged struct {
	Overlay
	deltas map[string][]delta // by tensor
}

// Merge adds a LoRA adapter, a directory in peft's format, to the weights. It may be called
// several times.
func (f *Files) Merge(fsys vfs.FS, dir string) error {
	if f.meta != nil || f.packed != nil {
		return fmt.Errorf("%w: %s: an adapter in peft's format needs a safetensors model, not GGUF or a pack", arch.ErrUnsupported, dir)
	}
	path := vfs.Join(dir, "adapter_config.json")
	data, err := vfs.ReadFile(fsys, path, maxJSON)
	if err != nil {
		return err
	}
	var c LoraConfig
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("%w: %s: %w", arch.ErrModel, path, err)
	}
	if err := c.Check(path); err != nil {
		return err
	}
	src, err := safetensors.Open(fsys, vfs.Join(dir, "adapter_model.safetensors"))
	if err != nil {
		return err
	}
	defer src.Close()
	m, ok := f.Source.(*merged)
	if !ok {
		base, err := f.InInputOrder()
		if err != nil {
			return err
		}
		m = newMerged(base)
	}
	if err := m.add(src, &c, dir, f.TensorSet().prefix); err != nil {
		return err
	}
	f.Source = m
	return nil
}

// Check returns an error for adapters that need another computation.
func (c *LoraConfig) Check(path string) error {
	refuse := ""
	switch {
	case c.PeftType != "LORA":
		refuse = fmt.Sprintf("peft_type %q", c.PeftType)
	case c.DoRA:
		refuse = "use_dora"
	case c.FanInFanOut:
		refuse = "fan_in_fan_out"
	case c.Bias != "" && c.Bias != "none":
		refuse = fmt.Sprintf("bias %q", c.Bias)
	case len(c.ModulesToSave) > 0:
		refuse = "modules_to_save"
	}
	if refuse != "" {
		return fmt.Errorf("%w: %s: %s", arch.ErrUnsupported, path, refuse)
	}
	if c.Rank < 1 || c.Rank > maxRank {
		return fmt.Errorf("%w: %s: field r: %d is outside 1…%d", arch.ErrModel, path, c.Rank, maxRank)
	}
	if math.IsNaN(c.Alpha) || math.IsInf(c.Alpha, 0) {
		return fmt.Errorf("%w: %s: field lora_alpha: %v is not finite", arch.ErrModel, path, c.Alpha)
	}
	return nil
}

// Scale returns the scale of a module's delta.
func (c *LoraConfig) Scale(module string, rank int) float32 {
	alpha := c.Alpha
	for pattern, v := range c.AlphaPattern {
		if moduleMatches(pattern, module) {
			alpha = v
		}
	}
	if c.RSLoRA {
		return float32(alpha / math.Sqrt(float64(rank)))
	}
	return float32(alpha / float64(rank))
}

// moduleMatches reports whether a pattern, which may be a regular expression for the end of
// a name, matches a module.
func moduleMatches(pattern, module string) bool {
	re, err := regexp.Compile(`(^|\.)(?:` + pattern + `)$`) // Go's matcher takes time linear in the name's length
	return err == nil && re.MatchString(module)
}

func newMerged(src store.Source) *merged {
	return &merged{Overlay: NewOverlay(src), deltas: map[string][]delta{}}
}

// add reads an adapter's matrices and assigns them to tensors. prefix precedes the names of
// the model's tensors.
func (m *merged) add(src store.Source, c *LoraConfig, dir, prefix string) error {
	const aSuffix, bSuffix = ".lora_A.weight", ".lora_B.weight"
	used := 0
	for _, ta := range src.Tensors() {
		module, ok := strings.CutSuffix(ta.Name, aSuffix)
		if !ok {
			if !strings.HasSuffix(ta.Name, bSuffix) {
				return fmt.Errorf("%w: %s: the adapter contains tensor %s, which is not a LoRA factor", arch.ErrUnsupported, dir, ta.Name)
			}
			continue
		}
		tb, ok := src.Tensor(module + bSuffix)
		if !ok {
			return fmt.Errorf("%w: %s: tensor %s%s is missing", arch.ErrModel, dir, module, bSuffix)
		}
		name := strings.TrimPrefix(module, "base_model.model.")
		t, err := m.target(name, prefix, dir)
		if err != nil {
			return err
		}
		d, err := m.readFactors(src, ta, tb, *t, dir)
		if err != nil {
			return err
		}
		d.scale = c.Scale(name, d.rank)
		m.deltas[t.Name] = append(m.deltas[t.Name], d)
		t.Type, t.Size = quant.F32, int64(t.Rows())*int64(t.Cols())*4
		used++
	}
	if used == 0 {
		return fmt.Errorf("%w: %s: the adapter contains no LoRA factors", arch.ErrModel, dir)
	}
	return nil
}

// target returns the model's tensor that an adapter's module changes.
func (m *merged) target(module, prefix, dir string) (*store.Tensor, error) {
	i, ok := m.Index[prefix+module+".weight"]
	if !ok {
		i, ok = m.Index[module+".weight"]
	}
	if !ok {
		return nil, fmt.Errorf("%w: %s: the model has no tensor %s.weight, which the adapter changes", arch.ErrModel, dir, module)
	}
	return &m.Visible[i], nil
}

// readFactors reads the two factors for a tensor.
func (m *merged) readFactors(src store.Source, ta, tb, t store.Tensor, dir string) (d delta, err error) {
	d.rank = ta.Rows()
	if len(t.Shape) != 2 || len(ta.Shape) != 2 || len(tb.Shape) != 2 || d.rank < 1 || d.rank > maxRank ||
		ta.Cols() != t.Cols() || tb.Rows() != t.Rows() || tb.Cols() != d.rank {
		return d, fmt.Errorf("%w: %s: the shapes of tensors %s %v and %s %v do not fit %s %v",
			arch.ErrModel, dir, ta.Name, ta.Shape, tb.Name, tb.Shape, t.Name, t.Shape)
	}
	if d.a, err = ReadFloats(src, ta); err != nil {
		return d, err
	}
	d.b, err = ReadFloats(src, tb)
	return d, err
}

// ReadFloats returns all elements of a tensor.
func ReadFloats(src store.Source, t store.Tensor) ([]float32, error) {
	raw := make([]byte, t.Size)
	if _, err := src.ReadAt(t, raw, 0); err != nil {
		return nil, err
	}
	out := make([]float32, Elems(t.Shape))
	quant.DequantRow(t.Type, out, raw)
	return out, nil
}

// ReadAt reads a tensor and computes the rows of a changed one.
func (m *merged) ReadAt(t store.Tensor, p []byte, off int64) (int, error) {
	deltas := m.deltas[t.Name]
	if deltas == nil {
		return m.Source.ReadAt(t, p, off)
	}
	base, _ := m.Source.Tensor(t.Name)
	row := make([]float32, t.Cols())
	var out []byte
	return ReadComputed(t, p, off, func(i int) ([]byte, error) {
		if err := ReadRow(m.Source, base, row, i); err != nil {
			return nil, err
		}
		for _, d := range deltas {
			d.addTo(row, i)
		}
		out = AppendFloats(out[:0], row)
		return out, nil
	})
}

// addTo adds row i of the delta to a row of weights.
func (d *delta) addTo(row []float32 /* [cols] */, i int) {
	for r := range d.rank {
		quant.AddScaled(row, d.a[r*len(row):(r+1)*len(row)], float32(d.scale*d.b[i*d.rank+r]))
	}
}
