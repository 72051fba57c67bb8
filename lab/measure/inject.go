package measure

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// Outliers configure InjectOutliers.
type Outliers struct {
	Factor   float32 // multiplies the gain of channels
	Channels int     // per norm, evenly spaced
	Every    int     // 1: every layer; n: every n-th layer
}

// matricesBehindNorm lists the matrices that read the output of a norm, by their names in Hugging
// Face checkpoints.
var matricesBehindNorm = map[string][]string{
	"input_layernorm":          {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
	"post_attention_layernorm": {"mlp.gate_proj", "mlp.up_proj"},
}

// InjectOutliers writes a copy of a model in a directory with safetensors. In the copy some gains
// of norms are larger by a factor, and the matching columns of the matrices behind them smaller.
// The copy computes the same function, except for rounding in float32, but its activations have
// outliers that 8-bit integers cannot express.
func InjectOutliers(from vfs.FS, dir string, to vfs.FS, out string, o Outliers) (err error) {
	src, err := safetensors.Open(from, dir)
	if err != nil {
		return fmt.Errorf("outliers need a model in a directory with safetensors: %w", err)
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if err := to.MkdirAll(out); err != nil {
		return err
	}
	for _, name := range []string{"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"} {
		if err := copySideFile(from, dir, to, out, name); err != nil {
			return err
		}
	}
	var tensors []safetensors.TensorData
	changed := 0
	for _, t := range src.Tensors() {
		data := make([]byte, t.Size)
		if _, err := src.ReadAt(t, data, 0); err != nil {
			return err
		}
		d := safetensors.TensorData{Name: t.Name, Type: t.Type, Shape: t.Shape, Data: data}
		if factor, ok := o.factorOf(t.Name); ok {
			changed++
			if d, err = o.scaled(t, data, factor); err != nil {
				return err
			}
		}
		tensors = append(tensors, d)
	}
	if changed == 0 {
		return fmt.Errorf("%s has no norms and matrices with the names of Llama checkpoints", dir)
	}
	return safetensors.Write(to, vfs.Join(out, "model.safetensors"), tensors)
}

// maxSideFile bounds the size of copied files.
const maxSideFile = 256 << 20

// copySideFile copies a file that lies beside the tensors of a model, if it is there.
func copySideFile(from vfs.FS, dir string, to vfs.FS, out, name string) error {
	data, err := vfs.ReadFile(from, vfs.Join(dir, name), maxSideFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return vfs.WriteFile(to, vfs.Join(out, name), data)
}

// factorOf returns the factor of a tensor's channels, if the tensor changes.
func (o *Outliers) factorOf(name string) (float32, bool) {
	rest, ok := strings.CutPrefix(name, "model.layers.")
	if !ok {
		return 0, false
	}
	var layer int
	if _, err := fmt.Sscanf(rest, "%d.", &layer); err != nil || layer%o.Every != 0 {
		return 0, false
	}
	_, role, _ := strings.Cut(rest, ".")
	role = strings.TrimSuffix(role, ".weight")
	for norm, readers := range matricesBehindNorm {
		if role == norm {
			return o.Factor, true
		}
		for _, reader := range readers {
			if role == reader {
				return 1 / o.Factor, true
			}
		}
	}
	return 0, false
}

// scaled returns a tensor in float32 with some columns multiplied by factor.
func (o *Outliers) scaled(t store.Tensor, data []byte, factor float32) (safetensors.TensorData, error) {
	if !t.Type.IsFloat() {
		return safetensors.TensorData{}, fmt.Errorf("tensor %s has the type %s, not a float type", t.Name, t.Type)
	}
	cols := t.Cols()
	row := make([]float32, cols)
	rowBytes := len(data) / t.Rows()
	out := make([]byte, 0, 4*t.Rows()*cols)
	for r := range t.Rows() {
		quant.DequantRow(t.Type, row, data[r*rowBytes:(r+1)*rowBytes])
		for i := range o.Channels {
			row[(2*i+1)*cols/(2*o.Channels)] *= factor
		}
		out = modelfile.AppendFloats(out, row)
	}
	return safetensors.TensorData{Name: t.Name, Type: quant.F32, Shape: t.Shape, Data: out}, nil
}
