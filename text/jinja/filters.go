package jinja

import "math"

// filter implements v|name(args).
type filter = builtin[value, value]

// filters are the built-in filters: all filters of Jinja except those that generate
// HTML or random values.
var filters = map[string]filter{
	"abs":         withParams(filterAbs),
	"attr":        withParams(filterAttr, "name"),
	"batch":       withParams(filterBatch, "linecount", "fill_with?"),
	"capitalize":  withParams(filterCapitalize),
	"center":      withParams(filterCenter, "width?"),
	"count":       withParams(filterLength),
	"d":           withParams(filterDefault, "default_value?", "boolean?"),
	"default":     withParams(filterDefault, "default_value?", "boolean?"),
	"dictsort":    withParams(filterDictSort, "case_sensitive?", "by?", "reverse?"),
	"e":           withParams(filterEscape),
	"escape":      withParams(filterEscape),
	"first":       withParams(filterFirst),
	"float":       withParams(filterFloat, "default?"),
	"forceescape": withParams(filterEscape),
	"format":      withAnyArgs(filterFormat),
	"groupby":     withParams(filterGroupBy, "attribute", "default?", "case_sensitive?"),
	"indent":      withParams(filterIndent, "width?", "first?", "blank?"),
	"int":         withParams(filterInt, "default?", "base?"),
	"items":       withParams(filterItems),
	"join":        withParams(filterJoin, "d?", "attribute?"),
	"last":        withParams(filterLast),
	"length":      withParams(filterLength),
	"list":        withParams(filterList),
	"lower":       withParams(filterLower),
	"map":         withAnyArgs(filterMap),
	"max":         withParams(filterMax, "case_sensitive?", "attribute?"),
	"min":         withParams(filterMin, "case_sensitive?", "attribute?"),
	"reject":      withAnyArgs(filterReject),
	"rejectattr":  withAnyArgs(filterRejectAttr),
	"replace":     withParams(filterReplace, "old", "new", "count?"),
	"reverse":     withParams(filterReverse),
	"round":       withParams(filterRound, "precision?", "method?"),
	"safe":        withParams(filterSafe),
	"select":      withAnyArgs(filterSelect),
	"selectattr":  withAnyArgs(filterSelectAttr),
	"slice":       withParams(filterSlice, "slices", "fill_with?"),
	"sort":        withParams(filterSort, "reverse?", "case_sensitive?", "attribute?"),
	"string":      withParams(filterString),
	"sum":         withParams(filterSum, "attribute?", "start?"),
	"title":       withParams(filterTitle),
	"tojson":      withParams(filterToJSON, "ensure_ascii?", "indent?", "separators?", "sort_keys?"),
	"trim":        withParams(filterTrim, "chars?"),
	"truncate":    withParams(filterTruncate, "length?", "killwords?", "end?", "leeway?"),
	"unique":      withParams(filterUnique, "case_sensitive?", "attribute?"),
	"upper":       withParams(filterUpper),
	"urlencode":   withParams(filterURLEncode),
	"wordcount":   withParams(filterWordCount),
}

// hasFilter reports whether a filter exists. The parser calls it to reject unknown
// filters.
func hasFilter(name string) bool { _, ok := filters[name]; return ok }

// unknownFilter returns the error for an unknown filter.
func unknownFilter(name string) error {
	return &Error{Kind: ErrUnsupported, Construct: "filter '" + name + "'", Reason: "no filter has this name"}
}

// applyFilter applies a filter by name.
func (r *renderer) applyFilter(name string, v value, args []value, keywords []keyword) (value, error) {
	f, ok := r.filters[name]
	if !ok {
		return nil, unknownFilter(name)
	}
	return f.apply(&call{r, name, args, keywords}, v)
}

// filterDefault replaces an undefined value. With its second parameter it replaces
// every false value.
func filterDefault(p *params, v value) (value, error) {
	if _, undef := v.(*undefined); undef || p.flag(1) && !truthy(v) {
		return p.orDefault(0, ""), nil
	}
	return v, nil
}

// filterLength fails for lazy sequences, as in Python.
func filterLength(p *params, v value) (value, error) {
	if l, ok := v.(*loop); ok {
		n, err := l.length()
		return int64(n), err
	}
	n, ok := length(v)
	if !ok {
		return nil, runtimeErrorf("object of type '%s' has no len()", typeName(v))
	}
	return int64(n), p.r.chargeScan(n)
}

// filterAttr returns an attribute. It does not consider items.
func filterAttr(p *params, v value) (value, error) {
	name, err := p.text(0, "")
	if err != nil {
		return nil, err
	}
	found, ok, err := p.r.ownAttribute(v, name)
	if !ok && err == nil {
		found = undefinedMember(v, name)
	}
	return found, err
}

// filterAbs returns an integer for an integer.
func filterAbs(p *params, v value) (value, error) {
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

// filterInt converts v to an integer and returns the default if the conversion fails.
func filterInt(p *params, v value) (value, error) {
	base, err := p.int(1, 10)
	if err != nil {
		return nil, err
	}
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	v = plain(v)
	if s, ok := v.(string); ok {
		p.r.chargeDeferred(len(s))
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
	return p.orDefault(0, int64(0)), nil
}

// filterFloat converts v to a float and returns the default if the conversion fails.
func filterFloat(p *params, v value) (value, error) {
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	if s, ok := plain(v).(string); ok {
		p.r.chargeDeferred(len(s))
	}
	if f, ok := toFloat(plain(v)); ok {
		return f, nil
	}
	return p.orDefault(0, float64(0)), nil
}

// filterRound implements Python's round for the method "common": it rounds the exact
// binary value half to even. The result is an integer only if v is an integer.
func filterRound(p *params, v value) (value, error) {
	digits, err := p.int(0, 0)
	if err != nil {
		return nil, err
	}
	method, err := p.text(1, "common")
	if err != nil {
		return nil, err
	}
	if err := p.r.chargeSteps(1 + min(max(digits, 0), maxPadding)); err != nil {
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

// filterSum adds the items with the operator +, so it also joins lists if start is a
// list.
func filterSum(p *params, v value) (value, error) {
	get := p.r.attributeGetter(p.orDefault(0, nil))
	total := p.orDefault(1, int64(0))
	return total, p.r.forEach(v, func(item value) error {
		item, err := get(item)
		if err == nil {
			total, err = p.r.binary("+", total, item)
		}
		return err
	})
}

// filterMin and filterMax return the first smallest and the first greatest item.
func filterMin(p *params, v value) (value, error) { return selectExtreme(p, v, less) }
func filterMax(p *params, v value) (value, error) { return selectExtreme(p, v, greater) }

// selectExtreme returns the first item whose comparison with all earlier items results
// in want.
func selectExtreme(p *params, v value, want ordering) (value, error) {
	get := p.r.caseFoldedGetter(p.orDefault(1, nil), p.flag(0))
	op := "<"
	if want == greater {
		op = ">"
	}
	var best, bestKey value = &undefined{reason: "No aggregated item, sequence was empty."}, nil
	first := true
	err := p.r.forEach(v, func(item value) error {
		key, err := get(item)
		if err != nil {
			return err
		}
		order := want
		if !first {
			if order, err = p.r.order(op, key, bestKey, 0); err != nil {
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
