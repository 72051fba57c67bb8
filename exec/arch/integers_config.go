package arch

import (
	"fmt"
	"strings"
)

// IntPacking says how a checkpoint packs weights that GPTQ or AWQ rounded to
// integers: several codes in a word of 32 bits, and beside them scales and zeros
// of groups of inputs. A weight is scale·(code-zero).
type IntPacking struct {
	AWQ   bool // codes of neighbouring outputs share a word; otherwise of inputs
	Bits  int  // of a code
	Group int  // inputs that share scale and zero; 0 = all
	// zeroLess is what zeros are stored less by: 1 in the first format of GPTQ.
	// A sum beyond the largest code begins again at 0, as in the library that
	// the format is from.
	ZeroOffset uint32
}

// intPacking reads quantization_config, nil where there is none. Checkpoints of
// other methods than GPTQ and AWQ are refused.
func (c *hfConfig) IntPacking() *IntPacking {
	q := c.object("quantization_config")
	if q == nil {
		return nil
	}
	p := &IntPacking{}
	switch method := strings.ToLower(q.str("quant_method")); method {
	case "gptq":
		p.gptq(q)
	case "awq":
		p.AWQ = true
		q.allowOnly("version", q.str("version"), "", "gemm")
		p.Bits = q.requireOneOf("bits", 4)
	default:
		q.fail(fmt.Errorf("%w: %s: weights quantized by %q, and only gptq and awq are read; use the original checkpoint or a GGUF file",
			ErrUnsupported, q.path, method))
	}
	if p.Group = q.num("group_size", -1); p.Group == -1 {
		p.Group = 0
	} else if p.Group < 1 {
		q.fail(fmt.Errorf("%w: %s: field group_size: %d is neither -1 nor a number of inputs", ErrModel, q.path, p.Group))
	}
	c.fail(q.Err)
	return p
}

// gptq reads what only GPTQ says.
func (p *IntPacking) gptq(q *hfConfig) {
	p.Bits = q.requireOneOf("bits", 4, 8)
	format := strings.ToLower(q.str("checkpoint_format"))
	q.allowOnly("checkpoint_format", format, "", "gptq", "gptq_v2")
	if format != "gptq_v2" {
		p.ZeroOffset = 1
	}
	if dynamic := q.object("dynamic"); dynamic != nil && len(dynamic.fields) > 0 {
		q.fail(fmt.Errorf("%w: %s: field dynamic: bits or groups that differ between layers", ErrUnsupported, q.path))
	}
}

// requireOneOf returns a number that must be there and be one of a few.
func (c *hfConfig) requireOneOf(key string, allowed ...int) int {
	n := c.required(key)
	for _, a := range allowed {
		if n == a {
			return n
		}
	}
	c.fail(fmt.Errorf("%w: %s: field %s: %d, and only %v is read; use the original checkpoint or a GGUF file", ErrUnsupported, c.path, key, n, allowed))
	return allowed[0]
}

// allowOnly refuses a field whose value is none of a few.
func (c *hfConfig) allowOnly(key, value string, allowed ...string) {
	for _, a := range allowed {
		if strings.EqualFold(value, a) {
			return
		}
	}
	c.fail(fmt.Errorf("%w: %s: field %s: %q; use the original checkpoint or a GGUF file", ErrUnsupported, c.path, key, value))
}
