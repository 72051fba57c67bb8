package exec

import (
	"fmt"
	"strings"
)

// intPacking says how a checkpoint packs weights that GPTQ or AWQ rounded to
// integers: several codes in a word of 32 bits, and beside them scales and zeros
// of groups of inputs. A weight is scale·(code-zero).
type intPacking struct {
	awq   bool // codes of neighbouring outputs share a word; otherwise of inputs
	bits  int  // of a code
	group int  // inputs that share scale and zero; 0 = all
	// zeroLess is what zeros are stored less by: 1 in the first format of GPTQ.
	// A sum beyond the largest code begins again at 0, as in the library that
	// the format is from.
	zeroLess uint32
}

// intPacking reads quantization_config, nil where there is none. Checkpoints of
// other methods than GPTQ and AWQ are refused.
func (c *hfConfig) intPacking() *intPacking {
	q := c.object("quantization_config")
	if q == nil {
		return nil
	}
	p := &intPacking{}
	switch method := strings.ToLower(q.str("quant_method")); method {
	case "gptq":
		p.gptq(q)
	case "awq":
		p.awq = true
		q.only("version", q.str("version"), "", "gemm")
		p.bits = q.oneOf("bits", 4)
	default:
		q.keep(fmt.Errorf("%w: %s: weights quantized by %q, and only gptq and awq are read; use the original checkpoint or a GGUF file",
			ErrUnsupported, q.path, method))
	}
	if p.group = q.num("group_size", -1); p.group == -1 {
		p.group = 0
	} else if p.group < 1 {
		q.keep(fmt.Errorf("%w: %s: field group_size: %d is neither -1 nor a number of inputs", ErrModel, q.path, p.group))
	}
	c.keep(q.err)
	return p
}

// gptq reads what only GPTQ says.
func (p *intPacking) gptq(q *hfConfig) {
	p.bits = q.oneOf("bits", 4, 8)
	format := strings.ToLower(q.str("checkpoint_format"))
	q.only("checkpoint_format", format, "", "gptq", "gptq_v2")
	if format != "gptq_v2" {
		p.zeroLess = 1
	}
	if dynamic := q.object("dynamic"); dynamic != nil && len(dynamic.fields) > 0 {
		q.keep(fmt.Errorf("%w: %s: field dynamic: bits or groups that differ between layers", ErrUnsupported, q.path))
	}
}

// oneOf returns a number that must be there and be one of a few.
func (c *hfConfig) oneOf(key string, allowed ...int) int {
	n := c.need(key)
	for _, a := range allowed {
		if n == a {
			return n
		}
	}
	c.keep(fmt.Errorf("%w: %s: field %s: %d, and only %v is read; use the original checkpoint or a GGUF file", ErrUnsupported, c.path, key, n, allowed))
	return allowed[0]
}

// only refuses a field whose value is none of a few.
func (c *hfConfig) only(key, value string, allowed ...string) {
	for _, a := range allowed {
		if strings.EqualFold(value, a) {
			return
		}
	}
	c.keep(fmt.Errorf("%w: %s: field %s: %q; use the original checkpoint or a GGUF file", ErrUnsupported, c.path, key, value))
}
