package modelfile

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/store"
)

// harmlessTensors are parts of the names of tensors in layers that no network computes with: tables that engines
// compute themselves, masks, and scales for engines that round activations or keys and values to 8 bits.
var harmlessTensors = []string{
	"rotary_emb.", "attn_rot_embd.", "rope_freqs.", "rope_factors_", ".attention.bias", ".masked_bias", ".input_scale", ".k_scale", ".v_scale",
}

// CheckUnread returns an error if a layer of the network has a tensor that read does not report: a variant of the family
// under its name, whose answers would be wrong without it. Biases of zeros, which some quantizers write for each matrix,
// change nothing.
func (ts *TensorSet) CheckUnread(spec *arch.Spec, read func(name string) bool) error {
	if ts.packed {
		return nil // an import wrote what the network reads
	}
	prefix := strings.TrimSuffix(ts.name("", 0), "0.")
	for _, t := range ts.Source.Tensors() {
		rest, inLayer := strings.CutPrefix(t.Name, prefix)
		number, name, _ := strings.Cut(rest, ".")
		layer, err := strconv.Atoi(number)
		if !inLayer || err != nil || layer < 0 || layer >= len(spec.Layers) || read(t.Name) || ts.harmless(&spec.Layers[layer], layer, &t) {
			continue
		}
		if strings.HasSuffix(name, "bias") && t.Type.IsFloat() && t.Size <= arch.MaxTableBytes {
			if zeros, err := ts.allZeros(t); zeros || err != nil {
				if err != nil {
					return err
				}
				continue
			}
		}
		return fmt.Errorf("%w: %s: nothing reads the tensor %s of layer %d: the file is of a variant of %s that llmrun does not compute, and its answers would be wrong",
			arch.ErrUnsupported, ts.Path, t.Name, layer, ts.Hyper.Family)
	}
	return nil
}

// CheckUnreadEnds is CheckUnread for what an encoder has before its first layer and behind the last one.
func (ts *TensorSet) CheckUnreadEnds(spec *arch.Spec, read func(name string) bool) error {
	if ts.packed || !spec.Encoder.Bidirectional {
		return nil
	}
	layers := strings.TrimSuffix(ts.name("", 0), "0.")
	for _, t := range ts.Source.Tensors() {
		if strings.HasPrefix(t.Name, layers) || read(t.Name) || ts.besideEncoder(t.Name) {
			continue
		}
		if strings.HasSuffix(t.Name, "bias") && t.Type.IsFloat() && t.Size <= arch.MaxTableBytes {
			if zeros, err := ts.allZeros(t); zeros || err != nil {
				if err != nil {
					return err
				}
				continue
			}
		}
		return fmt.Errorf("%w: %s: nothing reads the tensor %s: the file is of a variant of %s that llmrun does not compute, and its answers would be wrong",
			arch.ErrUnsupported, ts.Path, t.Name, ts.Hyper.Family)
	}
	return nil
}

// besideEncoder reports whether a tensor is no part of an encoder's network: it belongs to a head, to what describes texts
// behind the network, or to other parts of a multimodal model.
func (ts *TensorSet) besideEncoder(name string) bool {
	if ofHead(name) {
		return true
	}
	if ts.Hyper.GGUF {
		return strings.HasPrefix(name, "dense_") || strings.HasPrefix(name, "rope_") || name == "output.weight"
	}
	return !strings.HasPrefix(name, ts.root.of(modelRoot))
}

// harmless reports whether a layer's answers do not depend on a tensor that nothing reads.
func (ts *TensorSet) harmless(l *arch.LayerSpec, layer int, t *store.Tensor) bool {
	for _, part := range harmlessTensors {
		if strings.Contains(t.Name, part) {
			return true
		}
	}
	var roles []string
	if l.KVBack > 0 { // it uses those of a layer before it
		roles = append(roles, "attn_k", "attn_v", "attn_k_norm", "attn_v_norm")
	}
	if ts.Hyper.Latent.Rank > 0 { // read as attn_k_b and attn_v_b, which some files have beside it
		roles = append(roles, "attn_kv_b")
	}
	if l.KeyIsValue {
		roles = append(roles, "attn_v")
	}
	for _, role := range roles {
		if strings.HasPrefix(t.Name, ts.name(role, layer)+".") {
			return true
		}
	}
	return false
}

// allZeros reports whether a small tensor of floats has zeros only.
func (ts *TensorSet) allZeros(t store.Tensor) (bool, error) {
	values, err := ReadFloats(ts.Source, t)
	for _, v := range values {
		if v != 0 {
			return false, err
		}
	}
	return true, err
}
