package modelfile

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// RewardHead scores the hidden state behind the final norm.
type RewardHead struct {
	Tensor string    // name of its weights
	Weight []float32 // [Labels, Dim]
	Bias   []float32 // [Labels], or nil
	Labels int       // 1: a score; 2: classes, of which one means a good answer
	Good   int       // index of that class
}

// RewardHeadTensors are the known tensors of heads: of AutoModelForSequenceClassification, of TRL's models with a
// value head, and of GGUF files with rank pooling.
var RewardHeadTensors = []string{"score.weight", "v_head.summary.weight", "cls.output.weight"}

// maxLabels is the most classes of a head.
const maxLabels = 2

// rankPooling is the value of pooling_type for classification heads in GGUF files.
const rankPooling = 4

// Headless makes the network end with the final norm: an output matrix is not loaded.
func (f *Files) Headless() {
	if f.Hyper != nil {
		f.Hyper.Headless = true
	}
}

// RewardHead reads the head of a reward model; nil if the model has none.
func (f *Files) RewardHead() (*RewardHead, error) {
	spec, err := f.Spec()
	if err != nil {
		return nil, err
	}
	for _, name := range RewardHeadTensors {
		t, ok := f.Source.Tensor(name)
		if !ok {
			continue
		}
		ts := f.TensorSet()
		h := &RewardHead{Tensor: name}
		if h.Labels, err = ts.RowsOf(t, spec.Dim); err != nil {
			return nil, err
		}
		if h.Labels < 1 || h.Labels > maxLabels {
			return nil, fmt.Errorf("%w: %s: tensor %s has %d rows; known are heads with 1 (a score) and 2 (classes)", arch.ErrUnsupported, f.Path, name, h.Labels)
		}
		if err := f.checkRanks(name); err != nil {
			return nil, err
		}
		if err := h.read(ts, t); err != nil {
			return nil, err
		}
		return h, f.findGood(h)
	}
	return nil, nil
}

// read reads the weights and the optional bias.
func (h *RewardHead) read(ts *TensorSet, t store.Tensor) (err error) {
	if h.Weight, err = ReadFloats(ts.Source, t); err != nil {
		return err
	}
	b, ok := ts.Source.Tensor(strings.TrimSuffix(t.Name, "weight") + "bias")
	if !ok {
		return nil
	}
	if n := Elems(b.Shape); n != h.Labels {
		return fmt.Errorf("%w: %s: tensor %s has %d elements (shape %v), not %d", arch.ErrModel, ts.Path, b.Name, n, b.Shape, h.Labels)
	}
	h.Bias, err = ReadFloats(ts.Source, b)
	return err
}

// checkRanks refuses GGUF files with other heads than a matrix over the last token.
func (f *Files) checkRanks(name string) error {
	if f.meta == nil {
		return nil
	}
	c := &arch.GGUFConfig{Meta: f.meta, Arch: f.architecture(), Path: f.Path}
	kind := c.Num("pooling_type", 0)
	switch _, deep := f.Source.Tensor("cls.weight"); {
	case c.Err != nil:
		return c.Err
	case kind != rankPooling:
		return fmt.Errorf("%w: %s: key %s is %d, not %d (rank), which the tensor %s needs", arch.ErrUnsupported, f.Path, c.Key("pooling_type"), kind, rankPooling, name)
	case deep:
		return fmt.Errorf("%w: %s: tensor cls.weight: a layer before the head", arch.ErrUnsupported, f.Path)
	}
	return nil
}

// architecture returns the prefix of the keys of a GGUF file.
func (f *Files) architecture() string {
	name, _, _ := f.meta.String("general.architecture") // opening the file has checked it
	return name
}

// findGood finds the class that means a good answer: the second one, unless the first one is called yes.
func (f *Files) findGood(h *RewardHead) error {
	if h.Labels == 1 {
		return nil
	}
	first, err := f.firstLabel()
	if h.Good = 1; strings.EqualFold(first, "yes") {
		h.Good = 0
	}
	return err
}

// firstLabel returns the name of a head's first class, "" if the files do not say.
func (f *Files) firstLabel() (string, error) {
	if f.meta != nil {
		labels, ok, err := f.meta.Strings(f.architecture() + ".classifier.output_labels")
		if err != nil || !ok || labels.Len() == 0 {
			return "", err
		}
		return labels.At(0), nil
	}
	data, err := f.readOptional("config.json")
	if data == nil || err != nil {
		return "", err
	}
	var c struct {
		Labels map[string]string `json:"id2label"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return "", fmt.Errorf("%w: %s: field id2label: %w", arch.ErrModel, vfs.Join(f.dir, "config.json"), err)
	}
	return c.Labels["0"], nil
}

// Score returns the score of a hidden state: the value of a head with one row, or the probability of the good class.
// Sums are in float64, in the order of the columns.
func (h *RewardHead) Score(hidden []float32 /* [Dim] */) float64 {
	var values [maxLabels]float64
	for r := range h.Labels {
		row := h.Weight[r*len(hidden) : (r+1)*len(hidden)]
		for i, x := range hidden {
			values[r] += float64(row[i]) * float64(x)
		}
		if h.Bias != nil {
			values[r] += float64(h.Bias[r])
		}
	}
	if h.Labels == 1 {
		return values[0]
	}
	return GoodProbability(values[h.Good], values[1-h.Good])
}

// GoodProbability returns the probability of the first of two classes with these logits.
func GoodProbability(good, bad float64) float64 { return 1 / (1 + math.Exp(bad-good)) }
