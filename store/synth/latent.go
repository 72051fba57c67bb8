package synth

import "math"

// Latent holds the sizes of latent attention.
type Latent struct {
	Rank  int  // of keys and values; 0 = ordinary attention
	QRank int  // of queries; 0 = one matrix
	Rope  int  // rotated elements of a key; HeadDim counts them
	Value int  // elements of a value head
	Joint bool // one matrix gives keys and values
}

// latent adds the tensors of latent attention.
func (s Shape) latent(l *layerTensors) {
	m := &s.Latent
	if m.QRank > 0 {
		l.add("attn_q_a.weight", roleMatrix, fillMatrix, m.QRank, s.Dim)
		l.add("attn_q_a_norm.weight", roleNone, fillGain, m.QRank)
		l.add("attn_q_b.weight", roleMatrix, fillMatrix, s.Heads*s.HeadDim, m.QRank)
	} else {
		l.add("attn_q.weight", roleQuery, fillMatrix, s.Heads*s.HeadDim, s.Dim)
	}
	l.add("attn_kv_a_mqa.weight", roleMatrix, fillMatrix, m.Rank+m.Rope, s.Dim)
	l.add("attn_kv_a_norm.weight", roleNone, fillGain, m.Rank)
	keys := s.HeadDim - m.Rope
	if m.Joint {
		l.add("attn_kv_b.weight", roleMatrix, fillMatrix, s.Heads*(keys+m.Value), m.Rank)
	} else {
		l.add("attn_k_b.weight", roleMatrix, fillMatrix, s.Heads, m.Rank, keys)
		l.add("attn_v_b.weight", roleMatrix, fillMatrix, s.Heads, m.Value, m.Rank)
	}
	l.add("attn_output.weight", roleProject, fillMatrix, s.Dim, s.Heads*m.Value)
}

// latentKeys adds the keys of latent attention: the sizes of what a token stores, and of what follows from it.
func (s Shape) latentKeys(k *keys) {
	m := &s.Latent
	if m.QRank > 0 {
		k.putInt("attention.q_lora_rank", m.QRank)
	}
	k.putInt("attention.kv_lora_rank", m.Rank)
	if m.Joint {
		k.putInt("attention.key_length", s.HeadDim)
		return
	}
	k.putInt("attention.key_length", m.Rank+m.Rope)
	k.putInt("attention.value_length", m.Rank)
	k.putInt("attention.key_length_mla", s.HeadDim)
	k.putInt("attention.value_length_mla", m.Value)
}

// longFactors returns divisors that grow from the fastest frequency to the slowest one.
func (s *Shape) longFactors() []float32 {
	factors := make([]float32, s.Rope.Dim/2)
	for i := range factors {
		factors[i] = float32(math.Pow(s.Rope.Long, float64(i)/float64(max(1, len(factors)-1))))
	}
	return factors
}
