package synth

import "github.com/llmrun/llmrun/quant"

// mix is a quantization of a model: a main type, and types with more bits for the tensors
// for which the usual quantizer uses more.
type mix struct {
	name     string
	fileType uint32 // general.file_type
	main     quant.Type
	medium   bool       // some value and down projections are Q6_K
	qkv      quant.Type // type of fused QKV projections
	low      *lowBits   // of mixes with 2 or 3 bits
}

// lowBits are the types of the matrices that suffer most in mixes with 2 or 3 bits, as the quantizer
// chooses them for models with four or more query heads for each key head, or with experts.
type lowBits struct {
	output, table   quant.Type // the output head, and embeddings that are none
	value           quant.Type
	query, key, out quant.Type // projections of attention
	down            quant.Type // down projections of the first eighth of the layers
}

var mixes = []mix{
	{name: "q4_0", fileType: 2, main: quant.Q4_0, qkv: quant.Q4_0},
	{name: "q8_0", fileType: 7, main: quant.Q8_0, qkv: quant.Q8_0},
	{name: "q4_k_m", fileType: 15, main: quant.Q4_K, medium: true, qkv: quant.Q5_K},
	{name: "q5_k_m", fileType: 17, main: quant.Q5_K, medium: true, qkv: quant.Q6_K},
	{name: "q6_k", fileType: 18, main: quant.Q6_K, qkv: quant.Q6_K},
	{name: "f16", fileType: 1, main: quant.F16, qkv: quant.F16},
	{name: "bf16", fileType: 32, main: quant.BF16, qkv: quant.BF16},
	{name: "iq2_xs", fileType: 20, main: quant.IQ2_XS, qkv: quant.IQ2_XS, low: &lowBits{
		output: quant.Q5_K, table: quant.Q2_K, value: quant.Q4_K, query: quant.IQ2_XS, key: quant.IQ2_XS, out: quant.IQ2_XS, down: quant.Q2_K,
	}},
	{name: "iq3_xxs", fileType: 23, main: quant.IQ3_XXS, qkv: quant.IQ3_XXS, low: &lowBits{
		output: quant.Q5_K, table: quant.IQ3_S, value: quant.Q4_K, query: quant.IQ2_S, key: quant.IQ2_S, out: quant.IQ3_S, down: quant.IQ3_XXS,
	}},
	{name: "iq3_s", fileType: 26, main: quant.IQ3_S, qkv: quant.IQ3_S, low: &lowBits{
		output: quant.Q6_K, table: quant.IQ3_S, value: quant.Q4_K, query: quant.IQ3_S, key: quant.IQ3_S, out: quant.IQ3_S, down: quant.IQ3_S,
	}},
	// The quantizer gives this type to experts alone, unless one asks for it for all tensors.
	{name: "mxfp4", fileType: 38, main: quant.MXFP4, qkv: quant.MXFP4, low: &lowBits{
		output: quant.Q8_0, table: quant.Q8_0, value: quant.MXFP4, query: quant.MXFP4, key: quant.MXFP4, out: quant.MXFP4, down: quant.MXFP4,
	}},
}

// Mixes returns the names of the mixes.
func Mixes() []string {
	var names []string
	for _, m := range mixes {
		names = append(names, m.name)
	}
	return names
}

// findMix returns the mix with the given name.
func findMix(name string) (mix, bool) {
	for _, m := range mixes {
		if m.name == name {
			return m, true
		}
	}
	return mix{}, false
}

// typeOf returns the type of a tensor in a model with the given number of layers.
func (m mix) typeOf(t *tensor, layers int) quant.Type {
	if t.role == roleNone {
		return quant.F32
	}
	return compatibleType(m.preferredType(t, layers), t.cols())
}

// preferredType returns the type of a matrix, if its rows are whole blocks.
func (m mix) preferredType(t *tensor, layers int) quant.Type {
	switch {
	case t.role == roleMXFP4:
		return quant.MXFP4
	case t.role == roleKept && !m.main.IsFloat():
		return quant.BF16
	case m.low != nil:
		return m.low.typeOf(t, layers, m.main)
	case m.main.IsFloat():
		return m.main
	case t.role == roleOutput && m.main != quant.Q8_0:
		return quant.Q6_K
	case t.role == roleQKV:
		return m.qkv
	case m.medium && (t.role == roleValue || t.role == roleDown) && useMoreBits(t.layer, layers):
		return quant.Q6_K
	}
	return m.main
}

// typeOf returns the type of a matrix in a mix with 2 or 3 bits.
func (m *lowBits) typeOf(t *tensor, layers int, main quant.Type) quant.Type {
	switch t.role {
	case roleOutput:
		return m.output
	case roleEmbed, roleTable:
		return m.table
	case roleValue:
		return m.value
	case roleQuery:
		return m.query
	case roleKey:
		return m.key
	case roleProject:
		return m.out
	case roleDown:
		if t.layer < layers/8 {
			return m.down
		}
	}
	return main
}

// useMoreBits reports whether a medium mix uses more bits for a layer: the first and last
// eighth and every third layer between them.
func useMoreBits(layer, layers int) bool {
	eighth := layers / 8
	return layer < eighth || layer >= 7*layers/8 || (layer-eighth)%3 == 2
}

// compatibleType returns t or, if cols is not a whole number of blocks, the type with
// smaller blocks that replaces it.
func compatibleType(t quant.Type, cols int) quant.Type {
	substitutes := map[quant.Type]quant.Type{
		quant.Q4_K: quant.Q5_0, quant.Q5_K: quant.Q5_1, quant.Q6_K: quant.Q8_0,
		quant.Q2_K: quant.IQ4_NL, quant.IQ2_XS: quant.IQ4_NL, quant.IQ2_S: quant.IQ4_NL, quant.IQ3_XXS: quant.IQ4_NL, quant.IQ3_S: quant.IQ4_NL,
	}
	if s, ok := substitutes[t]; ok && cols%t.BlockElems() != 0 {
		t = s
	}
	if cols%t.BlockElems() != 0 {
		return quant.F16
	}
	return t
}
