package modelfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// maxRank limits the rank of an adapter; known adapters have up to a few hundred.
const maxRank = 4096

// The files of an adapter.
const (
	adapterConfig  = "adapter_config.json"
	adapterWeights = "adapter_model.safetensors"
)

// LoraConfig contains the fields of a peft adapter_config.json that the engine reads.
type LoraConfig struct {
	PeftType      string             `json:"peft_type"`
	Rank          int                `json:"r"`
	Alpha         float64            `json:"lora_alpha"`
	AlphaPattern  map[string]float64 `json:"alpha_pattern"`
	RSLoRA        bool               `json:"use_rslora"`
	DoRA          bool               `json:"use_dora"`
	FanInFanOut   bool               `json:"fan_in_fan_out"`
	Bias          string             `json:"bias"`
	ModulesToSave []string           `json:"modules_to_save"`
	Replication   [][]int            `json:"layer_replication"`
	Invocation    []int              `json:"alora_invocation_tokens"`

	alphaOrder []string // the patterns of AlphaPattern in the order of the file
}

// The values of fields that a file lacks, as in peft.
const (
	defaultRank  = 8
	defaultAlpha = 8
)

// UnmarshalJSON implements json.Unmarshaler. Fields that are missing have the values that peft gives them.
func (c *LoraConfig) UnmarshalJSON(data []byte) error {
	type plain LoraConfig // without this method
	read := plain{Rank: defaultRank, Alpha: defaultAlpha}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	*c = LoraConfig(read)
	var fields struct {
		AlphaPattern json.RawMessage `json:"alpha_pattern"`
	}
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	for d := json.NewDecoder(bytes.NewReader(fields.AlphaPattern)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if name, isName := token.(string); isName {
			c.alphaOrder = append(c.alphaOrder, name)
		}
	}
}

// alphaPatterns returns the patterns of AlphaPattern in the order of the file.
func (c *LoraConfig) alphaPatterns() []string {
	if c.alphaOrder == nil {
		return slices.Sorted(maps.Keys(c.AlphaPattern))
	}
	return c.alphaOrder
}

// ErrAdapter reports that an adapter is for another model.
var ErrAdapter = errors.New("the adapter does not fit the model")

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
	// apart are the tensors that the model holds as two, which no merged change would reach.
	apart map[string]bool

	// For counterparts:
	spec           *arch.Spec // nil if the configuration is wrong, which loading reports
	family         *arch.Family
	tensors        *TensorSet
	gguf, adjacent bool // as in adapterFormat, of the model's files
	// tiedHead is an output matrix that nothing reads, because the embedding takes its place; "": none
	tiedHead string
	// keep takes the factors of adapters beside the weights; nil: they become deltas
	keep func(t *store.Tensor, a, b *factor, scale float32)
}

// factor is a matrix of an adapter as its file stores it.
type factor struct {
	t          quant.Type
	rows, cols int
	data       []byte
}

// floats returns the elements of the factor.
func (f *factor) floats() []float32 {
	out := make([]float32, f.rows*f.cols)
	quant.DequantRow(f.t, out, f.data)
	return out
}

// Merge adds a LoRA adapter, a directory in peft's format or a GGUF file, with an optional scale behind a
// colon, to the weights. It may be called several times.
func (f *Files) Merge(fsys vfs.FS, dir string) error {
	if f.latent != nil {
		return f.mergeLatent(fsys, dir)
	}
	m, ok := f.Source.(*merged)
	if !ok {
		base, err := f.InInputOrder()
		if err != nil {
			return err
		}
		m = f.newMerged(base)
	}
	before := m.bytes()
	if err := f.addAdapter(m, fsys, dir); err != nil {
		return err
	}
	f.Source, f.adapterBytes = m, f.adapterBytes+m.bytes()-before
	return nil
}

// mergeLatent is Merge for a model whose matrices of latent attention appear apart: they are taken from the merged ones.
func (f *Files) mergeLatent(fsys vfs.FS, dir string) error {
	m, ok := f.latent.Source.(*merged)
	if !ok {
		base, err := newInputOrder(f.latent.Source, f.Path)
		if err != nil {
			return err
		}
		m = f.newMerged(base)
		m.apart = nil
	}
	before := m.bytes()
	if err := f.addAdapter(m, fsys, dir); err != nil {
		return err
	}
	f.Source, f.latent, f.adapterBytes = m, nil, f.adapterBytes+m.bytes()-before
	return f.splitLatent()
}

// addAdapter adds an adapter to the deltas of m.
func (f *Files) addAdapter(m *merged, fsys vfs.FS, name string) error {
	dir, factor, err := SplitAdapterScale(name)
	if err != nil {
		return err
	}
	if isGGUFAdapter(dir) {
		return f.addGGUFAdapter(m, fsys, dir, factor)
	}
	path := vfs.Join(dir, adapterConfig)
	fsys = vfs.Confine(fsys, dir)
	data, err := vfs.ReadFile(fsys, adapterConfig, maxJSON)
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
	src, err := safetensors.Open(fsys, adapterWeights)
	if err != nil {
		return err
	}
	defer src.Close()
	scale := func(module string, rank int) float32 { return c.Scale(module, rank) * factor }
	return m.add(src, &adapterFormat{factors: peftFactors}, scale, dir, f.TensorSet().root)
}

// SplitAdapterScale splits the name of an adapter, PATH or PATH:SCALE. The scale multiplies the adapter's own
// one; without it, it is 1.
func SplitAdapterScale(name string) (path string, scale float32, err error) {
	at := strings.LastIndexByte(name, ':')
	if at < 0 {
		return name, 1, nil
	}
	x, err := strconv.ParseFloat(name[at+1:], 32)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return name, 1, nil // a colon of the path
	case err != nil || math.IsNaN(x) || math.IsInf(x, 0):
		return "", 0, fmt.Errorf("%s: the scale behind the colon is not a finite number", name)
	}
	return name[:at], float32(x), nil
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
	case len(c.Replication) > 0:
		refuse = "layer_replication"
	case len(c.Invocation) > 0:
		refuse = "alora_invocation_tokens"
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
	for _, pattern := range c.alphaPatterns() {
		if _, err := moduleMatcher(pattern); err != nil {
			return fmt.Errorf("%w: %s: field alpha_pattern: the regular expression %q", arch.ErrUnsupported, path, pattern)
		}
	}
	return nil
}

// Scale returns the scale of a module's delta. Of several patterns that match, the first of the file counts.
func (c *LoraConfig) Scale(module string, rank int) float32 {
	alpha := c.Alpha
	for _, pattern := range c.alphaPatterns() {
		if re, err := moduleMatcher(pattern); err == nil && re.MatchString(module) {
			alpha = c.AlphaPattern[pattern]
			break
		}
	}
	if c.RSLoRA {
		return float32(alpha / math.Sqrt(float64(rank)))
	}
	return float32(alpha / float64(rank))
}

// moduleMatcher returns a matcher of module names for a pattern, which may be a regular expression for the end of
// a name.
func moduleMatcher(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile(`(^|\.)(?:` + pattern + `)$`) // Go's matcher takes time linear in the name's length
}

// newMerged returns the model's tensors, which src holds, without adapters.
func (f *Files) newMerged(src store.Source) *merged {
	m := &merged{Overlay: NewOverlay(src), deltas: map[string][]delta{}, apart: f.latentTensors(), family: f.family, tensors: f.TensorSet(), gguf: f.meta != nil}
	m.adjacent = m.gguf && f.family.Permuted()
	if s, err := f.Spec(); err == nil {
		if m.spec = s; s.Tied {
			m.tiedHead = m.tensors.name("output", -1) + ".weight"
		}
	}
	if f.packed != nil {
		m.addHubNames(f.family)
	}
	return m
}

// add reads an adapter's matrices and assigns them to tensors. root tells the names of
// the model's tensors.
func (m *merged) add(src store.Source, format *adapterFormat, scale func(module string, rank int) float32, dir string, root nameRoot) error {
	used := 0
	for _, ta := range src.Tensors() {
		module, tb, ok, err := format.factors.factors(src, &ta, dir)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		name := strings.TrimPrefix(module, "base_model.model.")
		parts, err := m.targets(name, format, root, tb.Rows(), dir)
		if err != nil {
			return err
		}
		a, b, err := m.readFactors(src, ta, tb, parts, dir)
		if err != nil {
			return err
		}
		for i := range parts {
			picked := parts[i].pick(b)
			whole, err := m.matrixScale(parts[i].t)
			if err != nil {
				return err
			}
			m.addFactors(parts[i].t, &a, &picked, scale(name, a.rows), whole)
		}
		used++
	}
	if used == 0 {
		return fmt.Errorf("%w: %s: the adapter contains no LoRA factors", arch.ErrModel, dir)
	}
	return nil
}

// addFactors adds the change of a tensor. whole multiplies the tensor's products, merged changes included.
func (m *merged) addFactors(t *store.Tensor, a, b *factor, scale, whole float32) {
	if m.keep != nil {
		m.keep(t, a, b, scale)
		return
	}
	m.deltas[t.Name] = append(m.deltas[t.Name], delta{rank: a.rows, scale: scale / whole, a: a.floats(), b: b.floats()})
	t.Type, t.Size = quant.F32, int64(t.Rows())*int64(t.Cols())*4
}

// bytes returns the size of all factors.
func (m *merged) bytes() (n int64) {
	for _, deltas := range m.deltas {
		for i := range deltas {
			n += 4 * int64(len(deltas[i].a)+len(deltas[i].b))
		}
	}
	return n
}

// target returns the model's tensor that an adapter's module changes.
func (m *merged) target(module string, root nameRoot, dir string) (*store.Tensor, error) {
	i, ok := m.Index[root.of(module)+".weight"]
	if !ok {
		i, ok = m.Index[module+".weight"]
	}
	if !ok {
		return nil, fmt.Errorf("%w: %s: the model has no tensor %s.weight, which the adapter changes", ErrAdapter, dir, module)
	}
	t := &m.Visible[i]
	if t.Name == m.tiedHead {
		return nil, fmt.Errorf("%w: %s: the adapter changes %s, in whose place the model uses its embedding: merge it into a model with an output matrix first", arch.ErrUnsupported, dir, t.Name)
	}
	return t, nil
}

// readFactors reads the two factors of a module that changes some tensors.
func (m *merged) readFactors(src store.Source, ta, tb store.Tensor, parts []counterpart, dir string) (a, b factor, err error) {
	rank, t := ta.Rows(), parts[0].t
	damaged := len(ta.Shape) != 2 || len(tb.Shape) != 2 || rank < 1 || rank > maxRank || tb.Cols() != rank
	if damaged || len(t.Shape) != 2 || ta.Cols() != t.Cols() || parts[0].rows == nil && tb.Rows() != t.Rows() {
		reason := ErrAdapter
		if damaged {
			reason = arch.ErrModel
		}
		return a, b, fmt.Errorf("%w: %s: the shapes of tensors %s %v and %s %v do not fit %s %v",
			reason, dir, ta.Name, ta.Shape, tb.Name, tb.Shape, t.Name, t.Shape)
	}
	if a, err = readFactor(src, ta); err != nil {
		return a, b, err
	}
	b, err = readFactor(src, tb)
	return a, b, err
}

// readFactor reads a factor.
func readFactor(src store.Source, t store.Tensor) (factor, error) {
	f := factor{t: t.Type, rows: t.Rows(), cols: t.Cols(), data: make([]byte, t.Size)}
	_, err := src.ReadAt(t, f.data, 0)
	return f, err
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
	return ReadComputed(m.Source, base, t, p, off, func(out []byte, row []float32, i int) error {
		for _, d := range deltas {
			d.addTo(row, i)
		}
		AppendFloats(out[:0], row)
		return nil
	})
}

// addTo adds row i of the delta to a row of weights.
func (d *delta) addTo(row []float32 /* [cols] */, i int) {
	for r := range d.rank {
		quant.AddScaled(row, d.a[r*len(row):(r+1)*len(row)], float32(d.scale*d.b[i*d.rank+r]))
	}
}

// layerTensor matches the name of a weight of a layer in a pack: the layer and the role.
var layerTensor = regexp.MustCompile(`^blk\.(\d+)\.(.+)\.weight$`)

// addHubNames lets adapters find the tensors of a pack by their names in the safetensors
// model, which adapters use. A name that several tensors have is that of a fused matrix, whose
// parts a pack stores; an adapter cannot change it there.
func (m *merged) addHubNames(family *arch.Family) {
	count := map[string]int{}
	for i, t := range m.Visible {
		name := hubName(family, t.Name)
		if _, taken := m.Index[name]; name == "" || taken && count[name] == 0 {
			continue
		}
		m.Index[name] = i
		count[name]++
	}
	for name, n := range count {
		if n > 1 {
			delete(m.Index, name)
		}
	}
}

// hubName returns the safetensors name of a weight of a pack, "" if it has none of its own.
func hubName(family *arch.Family, name string) string {
	role, layer := strings.TrimSuffix(name, ".weight"), -1
	if part := layerTensor.FindStringSubmatch(name); part != nil {
		role = part[2]
		layer, _ = strconv.Atoi(part[1]) // digits; an overflow gives a name that no adapter has
	}
	if known := family.HFName(role, -1); known == "" || strings.Contains(known, "%") {
		return ""
	}
	return family.HFName(role, layer) + ".weight"
}
