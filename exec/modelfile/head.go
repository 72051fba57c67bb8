package modelfile

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
)

// Head scores the hidden states behind the final norm.
type Head struct {
	Tensor string  `json:"tensor"` // name of the weights of its last layer
	At     Pooling `json:"at"`     // the states that it scores: of the first or last token, or the mean of all
	Inner  *Dense  `json:"inner,omitempty"`
	Norm   Floats  `json:"norm"`  // [Inner.Rows] gain of a LayerNorm behind Inner, or of no elements
	Shift  Floats  `json:"shift"` // [Inner.Rows] its bias, or of no elements
	Eps    float32 `json:"eps,omitempty"`
	Out    Dense   `json:"out"`  // 1 row: a score; 2: classes, of which one means a good answer
	Good   int     `json:"good"` // index of that class
}

// valueHead is the tensor of TRL's value heads.
const valueHead = "v_head.summary.weight"

// headTensors are the known tensors of heads: of AutoModelForSequenceClassification, of TRL's models with a value head, of
// GGUF files with rank pooling, and of encoders.
var headTensors = []string{"score.weight", valueHead, "cls.output.weight", "classifier.out_proj.weight", "classifier.weight", "score.2.weight"}

// innerTensors are the known layers of heads before the last one, without .weight, and their activations.
var innerTensors = []struct{ name, activation string }{
	{"cls", "tanh"}, {"classifier.dense", "tanh"}, {"bert.pooler.dense", "tanh"}, {"head.dense", "gelu"}, {"score.0", "relu"},
}

// innerNorms are the known norms behind these layers, without .weight.
var innerNorms = []string{"cls.norm", "head.norm"}

// KnownHeads lists the heads for an error.
func KnownHeads() string { return strings.Join(headTensors, ", ") }

// ofHead reports whether a tensor belongs to a head, or to what encoders have beside the network for their training.
func ofHead(name string) bool {
	root, _, _ := strings.Cut(name, ".")
	return slices.Contains(headTensors, name) ||
		slices.Contains([]string{"classifier", "score", "v_head", "cls", "head", "pooler", "lm_head", "decoder", "vocab_transform"}, root) ||
		strings.Contains(name, "pooler.") || strings.HasSuffix(name, "embeddings.position_ids")
}

// maxLabels is the most classes of a head.
const maxLabels = 2

// Headless makes the network end with the final norm: an output matrix is not loaded.
func (f *Files) Headless() {
	if f.Hyper != nil {
		f.Hyper.Headless = true
	}
}

// findHead finds the head of a model that scores texts; nil if it has none.
func (f *Files) findHead(spec *arch.Spec) (*Head, error) {
	for _, name := range headTensors {
		t, ok := f.Source.Tensor(name)
		if !ok || name == "classifier.weight" && !spec.Encoder.Bidirectional {
			continue
		}
		h := &Head{Tensor: name, At: PoolLast}
		if spec.Encoder.Bidirectional {
			h.At = PoolCLS
		}
		cols, err := f.findInner(h, spec)
		if err != nil {
			return nil, err
		}
		labels, err := f.TensorSet().RowsOf(t, cols)
		if err != nil {
			return nil, err
		}
		if labels < 1 || labels > maxLabels {
			return nil, fmt.Errorf("%w: %s: tensor %s has %d rows; known are heads with 1 (a score) and 2 (classes)", arch.ErrUnsupported, f.Path, name, labels)
		}
		h.Out = Dense{Rows: labels, Cols: cols, Weight: tensorFloats(f.Source, name), Bias: tensorFloats(f.Source, biasOf(name))}
		if err := f.checkBias(&h.Out, name); err != nil {
			return nil, err
		}
		if err := f.checkRanks(name); err != nil {
			return nil, err
		}
		return h, f.readHeadFields(h)
	}
	return nil, nil
}

// biasOf returns the name of the bias of a matrix.
func biasOf(weight string) string { return strings.TrimSuffix(weight, "weight") + "bias" }

// checkBias checks the size of a bias.
func (f *Files) checkBias(d *Dense, weight string) error {
	b, ok := f.Source.Tensor(biasOf(weight))
	if n := d.Bias.N; ok && n != d.Rows {
		return fmt.Errorf("%w: %s: tensor %s has %d elements (shape %v), not %d", arch.ErrModel, f.Path, b.Name, n, b.Shape, d.Rows)
	}
	return nil
}

// findInner finds the layer before the last one of a head, and returns the width that the last one reads.
func (f *Files) findInner(h *Head, spec *arch.Spec) (cols int, err error) {
	if h.Tensor == "score.weight" || h.Tensor == valueHead {
		return spec.Dim, nil
	}
	if err := f.checkTask(h.Tensor); err != nil {
		return 0, err
	}
	for _, inner := range innerTensors {
		t, ok := f.Source.Tensor(inner.name + ".weight")
		if !ok {
			continue
		}
		rows, err := f.TensorSet().RowsOf(t, spec.Dim)
		if err != nil {
			return 0, err
		}
		h.Inner = &Dense{Rows: rows, Cols: spec.Dim, Activation: inner.activation, Weight: tensorFloats(f.Source, t.Name), Bias: tensorFloats(f.Source, inner.name+".bias")}
		if spec.Family == arch.ModernBERT && f.meta != nil { // files name the layer as all others, and say nothing of the states
			h.Inner.Activation, h.At = "gelu", PoolMean
		}
		if err := f.checkBias(h.Inner, t.Name); err != nil {
			return 0, err
		}
		for _, norm := range innerNorms {
			if v := tensorFloats(f.Source, norm+".weight"); v.N > 0 {
				h.Norm, h.Shift, h.Eps = v, tensorFloats(f.Source, norm+".bias"), spec.Norm.Eps
			}
		}
		return rows, nil
	}
	if f.meta == nil {
		return 0, fmt.Errorf("%w: %s: the head with the tensor %s lacks the layer before it", arch.ErrModel, f.Path, h.Tensor)
	}
	return spec.Dim, nil
}

// checkTask refuses heads of models that do not score whole texts.
func (f *Files) checkTask(tensor string) error {
	if f.meta != nil {
		return nil
	}
	var c struct{ Architectures []string }
	if _, err := f.decode("config.json", &c); err != nil {
		return err
	}
	for _, name := range c.Architectures {
		for _, task := range []string{"ForTokenClassification", "ForMultipleChoice", "ForQuestionAnswering"} {
			if strings.HasSuffix(name, task) {
				return fmt.Errorf("%w: %s: the head with the tensor %s is that of %s, which does not score whole texts", arch.ErrUnsupported, f.Path, tensor, name)
			}
		}
	}
	return nil
}

// rankPooling is the value of pooling_type for classification heads in GGUF files.
const rankPooling = 4

// checkRanks refuses GGUF files whose head is for another purpose. Those of encoders need not name it.
func (f *Files) checkRanks(name string) error {
	if f.meta == nil {
		return nil
	}
	c := &arch.GGUFConfig{Meta: f.meta, Arch: f.architecture(), Path: f.Path}
	kind := c.Num("pooling_type", 0)
	encoder := f.Hyper.Bidirectional || f.meta.Has(c.Key("classifier.output_labels"))
	if c.Err == nil && kind != rankPooling && !(encoder && !f.meta.Has(c.Key("pooling_type"))) {
		return fmt.Errorf("%w: %s: key %s is %d, not %d (rank), which the tensor %s needs", arch.ErrUnsupported, f.Path, c.Key("pooling_type"), kind, rankPooling, name)
	}
	return c.Err
}

// architecture returns the prefix of the keys of a GGUF file.
func (f *Files) architecture() string {
	name, _, _ := f.meta.String("general.architecture") // opening the file has checked it
	return name
}

// readHeadFields finds the class that means a good answer: the second one, unless the first one is called yes. It also
// reads which states the head scores.
func (f *Files) readHeadFields(h *Head) error {
	var c struct {
		Labels  map[string]string `json:"id2label"`
		Pooling string            `json:"classifier_pooling"`
		Act     string            `json:"classifier_activation"`
	}
	first := ""
	if f.meta != nil {
		labels, ok, err := f.meta.Strings(f.architecture() + ".classifier.output_labels")
		if err != nil {
			return err
		}
		if ok && labels.Len() > 0 {
			first = labels.At(0)
		}
	} else {
		data, err := f.readFinite("config.json")
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, &c); err != nil {
			return fmt.Errorf("%w: %s: field id2label: %w", arch.ErrModel, vfs.Join(f.dir, "config.json"), err)
		}
		first = c.Labels["0"]
	}
	if h.Out.Rows == 2 && !strings.EqualFold(first, "yes") {
		h.Good = 1
	}
	switch c.Pooling {
	case "", "cls":
	case "mean":
		h.At = PoolMean
	default:
		return fmt.Errorf("%w: %s: field classifier_pooling: %q", arch.ErrUnsupported, vfs.Join(f.dir, "config.json"), c.Pooling)
	}
	if c.Act != "" && h.Inner != nil {
		h.Inner.Activation = strings.ToLower(c.Act) // check refuses what is not known
	}
	return nil
}

// check checks the sizes of a head; nil has none.
func (h *Head) check(f *Files, dim int) error {
	if h == nil {
		return nil
	}
	if h.Inner != nil {
		if err := h.Inner.check(f, dim, "the head's first layer"); err != nil {
			return err
		}
		dim = h.Inner.Rows
	}
	if h.Norm.N != 0 && h.Norm.N != dim || h.Shift.N != 0 && h.Shift.N != dim {
		return fmt.Errorf("%w: %s: the norm of the head has %d elements, not %d", arch.ErrModel, f.Path, h.Norm.N, dim)
	}
	if h.Out.Rows < 1 || h.Out.Rows > maxLabels || h.Good < 0 || h.Good >= h.Out.Rows {
		return fmt.Errorf("%w: %s: a head with %d classes, of which %d is good", arch.ErrModel, f.Path, h.Out.Rows, h.Good)
	}
	return h.Out.check(f, dim, "the head")
}

// floats lists the values of a head.
func (h *Head) floats() (list []*Floats) {
	if h == nil {
		return nil
	}
	if h.Inner != nil {
		list = append(list, &h.Inner.Weight, &h.Inner.Bias)
	}
	return append(list, &h.Norm, &h.Shift, &h.Out.Weight, &h.Out.Bias)
}

// Floats returns the number of the head's values.
func (h *Head) Floats() (n int) {
	for _, v := range h.floats() {
		n += v.N
	}
	return n
}

// Classes reports whether the head tells a good class from a bad one.
func (h *Head) Classes() bool { return h.Out.Rows > 1 }

// Raw returns the output of the head for a hidden state: its value, or how much greater that of the good class is.
func (h *Head) Raw(hidden []float32 /* [Dim] */) float64 {
	if h.Inner != nil {
		hidden = h.Inner.Apply(hidden)
		if h.Norm.N > 0 {
			normed, shift := make([]float32, len(hidden)), h.Shift.Values
			if h.Shift.N == 0 {
				shift = nil
			}
			quant.LayerNorm(normed, hidden, h.Norm.Values, shift, h.Eps)
			hidden = normed
		}
	}
	values := h.Out.sums(hidden)
	if !h.Classes() {
		return values[0]
	}
	return values[h.Good] - values[1-h.Good]
}

// Score returns the value of a head with one row, or the probability of the good class.
func (h *Head) Score(hidden []float32 /* [Dim] */) float64 {
	raw := h.Raw(hidden)
	if h.Classes() {
		return GoodProbability(raw, 0)
	}
	return raw
}

// sums returns the outputs of a layer with few rows. Sums are in float64, in the order of the columns.
func (d *Dense) sums(x []float32 /* [Cols] */) []float64 {
	out := make([]float64, d.Rows)
	for r := range out {
		row := d.Weight.Values[r*d.Cols : (r+1)*d.Cols]
		for i, v := range x {
			out[r] += float64(row[i]) * float64(v)
		}
		if d.Bias.N > 0 {
			out[r] += float64(d.Bias.Values[r])
		}
	}
	return out
}

// Apply returns what a layer makes of a vector.
func (d *Dense) Apply(x []float32 /* [Cols] */) []float32 {
	y := make([]float32, d.Rows)
	quant.MulRowsF32(y, d.Rows, d.Weight.Values, d.Cols, d.Rows, d.Cols, x, d.Cols, 1)
	if d.Bias.N > 0 {
		quant.Add(y, d.Bias.Values)
	}
	switch d.Activation {
	case "tanh":
		for i, v := range y {
			y[i] = float32(math.Tanh(float64(v)))
		}
	case "gelu":
		quant.GeluErf(y, y)
	case "silu":
		quant.Silu(y, y)
	case "relu":
		for i, v := range y {
			y[i] = max(0, v)
		}
	}
	return y
}

// GoodProbability returns the probability of the first of two classes with these logits.
func GoodProbability(good, bad float64) float64 { return 1 / (1 + math.Exp(bad-good)) }

// hasOnlyHead reports whether the model has a head that scores texts, and no output matrix.
func (f *Files) hasOnlyHead() bool {
	if _, ok := f.TensorSet().Find("output", -1, ".weight"); ok || f.Hyper.Tied != nil && *f.Hyper.Tied {
		return false
	}
	if f.packed != nil {
		d := &Description{}
		err := f.describedInPack(d)
		return err == nil && d.Head != nil
	}
	return slices.ContainsFunc(headTensors, func(name string) bool {
		_, ok := f.Source.Tensor(name)
		return ok
	})
}

// RankTemplate returns the template that joins a query and a text for a head, with {query} and {document} in it; "" if the
// files have none.
func (f *Files) RankTemplate() (string, error) {
	if f.meta == nil {
		return "", nil
	}
	text, _, err := f.meta.String("tokenizer.chat_template.rerank")
	if err != nil || !strings.Contains(text, "{document}") {
		return "", err
	}
	return text, nil
}
