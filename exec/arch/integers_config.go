package arch

import (
	"fmt"
	"strings"
)

// IntPacking describes how a GPTQ or AWQ checkpoint packs quantized weights: several
// integer codes in a word of 32 bits, with a scale and a zero for each group of inputs. A
// weight is scale·(code-zero).
type IntPacking struct {
	AWQ   bool // a word contains the codes of adjacent outputs; otherwise of inputs
	Bits  int  // per code
	Group int  // inputs per group; 0 = all
	// ZeroOffset is added to stored zeros: 1 in the first format of GPTQ. The sum wraps
	// around at the code range, as in the library of the format.
	ZeroOffset uint32
}

// IntPacking reads quantization_config; nil means that no integers are packed. It records an
// error for methods other than GPTQ, AWQ and MXFP4.
func (c *hfConfig) IntPacking() *IntPacking {
	q := c.object("quantization_config")
	if q == nil {
		return nil
	}
	p := &IntPacking{}
	switch method := strings.ToLower(q.str("quant_method")); method {
	case "gptq":
		p.gptq(q)
	case "mxfp4":
		return nil // see mxfp4
	case "awq":
		p.AWQ = true
		q.allowOnly("version", q.str("version"), "", "gemm")
		p.Bits = q.requireOneOf("bits", 4)
	default:
		q.fail(fmt.Errorf("%w: %s: quantization method %q; only gptq, awq and mxfp4 are supported: use the original checkpoint or a GGUF file",
			ErrUnsupported, q.path, method))
	}
	if p.Group = q.num("group_size", -1); p.Group == -1 {
		p.Group = 0
	} else if p.Group < 1 {
		q.fail(fmt.Errorf("%w: %s: field group_size: %d is neither -1 nor positive", ErrModel, q.path, p.Group))
	}
	c.fail(q.Err)
	return p
}

// mxfp4 reports whether the experts are stored in MXFP4.
func (c *hfConfig) mxfp4() bool {
	q := c.object("quantization_config")
	return q != nil && strings.EqualFold(q.str("quant_method"), "mxfp4")
}

// gptq reads the fields that only GPTQ has.
func (p *IntPacking) gptq(q *hfConfig) {
	p.Bits = q.requireOneOf("bits", 4, 8)
	format := strings.ToLower(q.str("checkpoint_format"))
	q.allowOnly("checkpoint_format", format, "", "gptq", "gptq_v2")
	if format != "gptq_v2" {
		p.ZeroOffset = 1
	}
	if dynamic := q.object("dynamic"); dynamic != nil && len(dynamic.fields) > 0 {
		q.fail(fmt.Errorf("%w: %s: field dynamic: bits or group sizes differ between layers", ErrUnsupported, q.path))
	}
}

// requireOneOf returns a required number that must be one of the allowed ones.
func (c *hfConfig) requireOneOf(key string, allowed ...int) int {
	n := c.required(key)
	for _, a := range allowed {
		if n == a {
			return n
		}
	}
	c.fail(fmt.Errorf("%w: %s: field %s: %d; only %v is supported: use the original checkpoint or a GGUF file", ErrUnsupported, c.path, key, n, allowed))
	return allowed[0]
}

// allowOnly records an error if a field's value is none of the allowed ones.
func (c *hfConfig) allowOnly(key, value string, allowed ...string) {
	for _, a := range allowed {
		if strings.EqualFold(value, a) {
			return
		}
	}
	c.fail(fmt.Errorf("%w: %s: field %s: %q is not supported: use the original checkpoint or a GGUF file", ErrUnsupported, c.path, key, value))
}
