package exec

import "math"

// exportConfig is a config.json of the older style, decoded independently of the readers under
// test. Absent fields are zero.
type exportConfig map[string]any

func (c exportConfig) has(key string) bool { return c[key] != nil }

func (c exportConfig) number(key string) float64 {
	v, _ := c[key].(float64)
	return v
}

func (c exportConfig) whole(key string) int { return int(c.number(key)) }

func (c exportConfig) text(key string) string {
	v, _ := c[key].(string)
	return v
}

func (c exportConfig) flag(key string) bool {
	v, _ := c[key].(bool)
	return v
}

func (c exportConfig) object(key string) exportConfig {
	v, _ := c[key].(map[string]any)
	return v
}

func (c exportConfig) list(key string) (out []float64) {
	v, _ := c[key].([]any)
	for _, x := range v {
		out = append(out, x.(float64))
	}
	return out
}

func (c exportConfig) texts(key string) (out []string) {
	v, _ := c[key].([]any)
	for _, x := range v {
		out = append(out, x.(string))
	}
	return out
}

func (c exportConfig) tied() bool { return c.flag("tie_word_embeddings") }

func (c exportConfig) experts() int {
	return max(c.whole("num_local_experts"), c.whole("num_experts"))
}

func (c exportConfig) headDim() int {
	if c.has("head_dim") {
		return c.whole("head_dim")
	}
	return c.whole("hidden_size") / c.whole("num_attention_heads")
}

// llama3Divisors returns the divisors of Llama 3.1's rotary frequencies: 1 for high frequencies,
// the factor for low ones, and an interpolation between.
func (c exportConfig) llama3Divisors(scaling exportConfig) []float64 {
	factor, original := scaling.number("factor"), scaling.number("original_max_position_embeddings")
	low, high := scaling.number("low_freq_factor"), scaling.number("high_freq_factor")
	out := make([]float64, c.headDim()/2)
	for i := range out {
		turns := original / (2 * math.Pi) * math.Pow(c.number("rope_theta"), -2*float64(i)/float64(c.headDim()))
		switch {
		case turns < low:
			out[i] = factor
		case turns > high:
			out[i] = 1
		default:
			kept := (turns - low) / (high - low)
			out[i] = 1 / ((1-kept)/factor + kept)
		}
	}
	return out
}
