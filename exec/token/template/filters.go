package template

import "math"

// filterFunc computes v|name(args).
type filterFunc func(c *call, v value) (value, error)

// filters are the built-in filters. Missing from Jinja's set are those that make
// HTML or are random.
var filters = map[string]filterFunc{
	"abs":         filterAbs,
	"attr":        filterAttr,
	"batch":       filterBatch,
	"capitalize":  filterCapitalize,
	"center":      filterCenter,
	"count":       filterLength,
	"d":           filterDefault,
	"default":     filterDefault,
	"dictsort":    filterDictSort,
	"e":           filterEscape,
	"escape":      filterEscape,
	"first":       filterFirst,
	"float":       filterFloat,
	"forceescape": filterEscape,
	"format":      filterFormat,
	"groupby":     filterGroupBy,
	"indent":      filterIndent,
	"int":         filterInt,
	"items":       filterItems,
	"join":        filterJoin,
	"last":        filterLast,
	"length":      filterLength,
	"list":        filterList,
	"lower":       filterLower,
	"map":         filterMap,
	"max":         filterMax,
	"min":         filterMin,
	"reject":      filterReject,
	"rejectattr":  filterRejectAttr,
	"replace":     filterReplace,
	"reverse":     filterReverse,
	"round":       filterRound,
	"safe":        filterSafe,
	"select":      filterSelect,
	"selectattr":  filterSelectAttr,
	"slice":       filterSlice,
	"sort":        filterSort,
	"string":      filterString,
	"sum":         filterSum,
	"title":       filterTitle,
	"tojson":      filterToJSON,
	"trim":        filterTrim,
	"truncate":    filterTruncate,
	"unique":      filterUnique,
	"upper":       filterUpper,
	"urlencode":   filterURLEncode,
	"wordcount":   filterWordCount,
}

func hasFilter(name string) bool { return filters[name] != nil }

func unknownFilter(name string) error {
	return &Error{Kind: ErrUnsupported, Construct: "filter '" + name + "'", Reason: "no filter of this name is available"}
}

// applyFilter runs a filter by name.
func (r *run) applyFilter(name string, v value, args []value, keywords []keyword) (value, error) {
	f := r.filters[name]
	if f == nil {
		return nil, unknownFilter(name)
	}
	return f(&call{r, name, args, keywords}, v)
}

func filterDefault(c *call, v value) (value, error) {
	p, err := c.bind(0, "default_value", "boolean")
	if err != nil {
		return nil, err
	}
	if _, undef := v.(*undefined); undef || p.flag(1) && !truthy(v) {
		return p.or(0, ""), nil
	}
	return v, nil
}

func filterLength(c *call, v value) (value, error) {
	if _, err := c.bind(0); err != nil {
		return nil, err
	}
	if l, ok := v.(*loop); ok {
		n, err := l.length()
		return int64(n), err
	}
	n, ok := length(v)
	if !ok {
		return nil, runtimeErrorf("object of type '%s' has no len()", typeName(v))
	}
	return int64(n), c.r.scan(n)
}

func filterAttr(c *call, v value) (value, error) {
	p, err := c.bind(1, "name")
	if err != nil {
		return nil, err
	}
	name, err := p.text(0, "")
	if err != nil {
		return nil, err
	}
	found, ok, err := c.r.ownAttribute(v, name)
	if !ok && err == nil {
		found = missing(v, name)
	}
	return found, err
}

func filterAbs(c *call, v value) (value, error) {
	if _, err := c.bind(0); err != nil {
		return nil, err
	}
	i, f, isInt, ok := number(v)
	switch {
	case !ok:
		return nil, runtimeErrorf("bad operand type for abs(): '%s'", typeName(v))
	case !isInt:
		return math.Abs(f), nil
	case i < 0:
		return intOp("-", 0, i)
	}
	return i, nil
}

// filterInt converts to an integer, or to its default where that is impossible.
func filterInt(c *call, v value) (value, error) {
	p, err := c.bind(0, "default", "base")
	if err != nil {
		return nil, err
	}
	base, err := p.int(1, 10)
	if err != nil {
		return nil, err
	}
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	v = plain(v)
	if s, ok := v.(string); ok {
		c.r.charge(len(s))
		if i, ok := parsePythonInt(s, base); ok {
			return i, nil
		}
	} else if i, _, isInt, ok := number(v); ok && isInt {
		return i, nil
	} else if _, ok := v.(bigInt); ok {
		return v, nil
	}
	if f, ok := toFloat(v); ok {
		if i, err := floatToInt(f); err == nil {
			return i, nil
		}
	}
	return p.or(0, int64(0)), nil
}

func filterFloat(c *call, v value) (value, error) {
	p, err := c.bind(0, "default")
	if err != nil {
		return nil, err
	}
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	if s, ok := plain(v).(string); ok {
		c.r.charge(len(s))
	}
	if f, ok := toFloat(plain(v)); ok {
		return f, nil
	}
	return p.or(0, float64(0)), nil
}

// filterRound rounds half to even for integers of digits, as Python's round does
// on the exact binary value; it yields an integer only for integers.
func filterRound(c *call, v value) (value, error) {
	p, err := c.bind(0, "precision", "method")
	if err != nil {
		return nil, err
	}
	digits, err := p.int(0, 0)
	if err != nil {
		return nil, err
	}
	method, err := p.text(1, "common")
	if err != nil {
		return nil, err
	}
	if err := c.r.step(1 + min(max(digits, 0), maxPadding)); err != nil {
		return nil, err
	}
	i, f, isInt, ok := number(v)
	switch {
	case !ok:
		return nil, runtimeErrorf("type %s doesn't define __round__ method", typeName(v))
	case method == "common" && isInt && digits >= 0:
		return i, nil
	case method == "common" && isInt:
		return floatToInt(roundFloat(f, digits))
	case method == "common":
		return roundFloat(f, digits), nil
	}
	scale := math.Pow(10, float64(digits))
	switch method {
	case "ceil":
		return math.Ceil(f*scale) / scale, nil
	case "floor":
		return math.Floor(f*scale) / scale, nil
	}
	return nil, runtimeErrorf("method must be common, ceil or floor")
}

func filterSum(c *call, v value) (value, error) {
	p, err := c.bind(0, "attribute", "start")
	if err != nil {
		return nil, err
	}
	get := c.r.attributeGetter(p.or(0, nil))
	total := p.or(1, int64(0))
	return total, c.r.each(v, func(item value) error {
		item, err := get(item)
		if err == nil {
			total, err = c.r.binary("+", total, item)
		}
		return err
	})
}

func filterMin(c *call, v value) (value, error) { return extreme(c, v, less) }
func filterMax(c *call, v value) (value, error) { return extreme(c, v, greater) }

// extreme returns the first item that comes out as want against all before it.
func extreme(c *call, v value, want ordering) (value, error) {
	p, err := c.bind(0, "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	get := c.r.foldedGetter(p.or(1, nil), p.flag(0))
	op := "<"
	if want == greater {
		op = ">"
	}
	var best, bestKey value = &undefined{reason: "No aggregated item, sequence was empty."}, nil
	first := true
	err = c.r.each(v, func(item value) error {
		key, err := get(item)
		if err != nil {
			return err
		}
		order := want
		if !first {
			if order, err = c.r.order(op, key, bestKey, 0); err != nil {
				return err
			}
		}
		if order == want {
			best, bestKey, first = item, key, false
		}
		return nil
	})
	return best, err
}
