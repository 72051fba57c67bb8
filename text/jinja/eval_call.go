package jinja

import (
	"math"
	"strings"
)

// call holds the arguments of a call of a filter, test, method or function.
type call struct {
	r        *renderer
	name     string // for error messages
	args     []value
	keywords []keyword
}

// keyword is an evaluated keyword argument.
type keyword struct {
	name  string
	value value
}

// absent marks a parameter without an argument.
type absent struct{}

// params holds the arguments of a call in the order of the parameters.
type params struct {
	*call
	names  []string
	values []value
}

// builtin is a filter, test or method with its parameters.
type builtin[T, R any] struct {
	names    []string
	required int  // number of required parameters, which come first
	variadic bool // accepts any arguments; run reads them from call
	run      func(p *params, v T) (R, error)
}

// withParams declares a builtin with the given parameters. A name that ends with ? is
// optional.
func withParams[T, R any](run func(*params, T) (R, error), parameters ...string) builtin[T, R] {
	b := builtin[T, R]{run: run, names: parameters}
	for i, name := range parameters {
		optional := strings.TrimSuffix(name, "?")
		if optional == name {
			b.required++
		}
		b.names[i] = optional
	}
	return b
}

// withAnyArgs declares a builtin that reads its arguments itself.
func withAnyArgs[T, R any](run func(*params, T) (R, error)) builtin[T, R] {
	return builtin[T, R]{run: run, variadic: true}
}

// apply binds the arguments and runs b on v.
func (b *builtin[T, R]) apply(c *call, v T) (R, error) {
	if b.variadic {
		return b.run(&params{call: c}, v)
	}
	p, err := c.bind(b.required, b.names...)
	if err != nil {
		var none R
		return none, err
	}
	return b.run(p, v)
}

// bind assigns the arguments to the parameters as Python does. required is the number
// of parameters, from the first, that must have an argument.
func (c *call) bind(required int, names ...string) (*params, error) {
	if len(c.args) > len(names) {
		return nil, runtimeErrorf("%s() takes at most %d arguments (%d given)", c.name, len(names), len(c.args))
	}
	p := &params{c, names, make([]value, len(names))}
	copy(p.values, c.args)
	for i := len(c.args); i < len(names); i++ {
		p.values[i] = absent{}
	}
	for _, kw := range c.keywords {
		i := 0
		for i < len(names) && names[i] != kw.name {
			i++
		}
		if i == len(names) {
			return nil, runtimeErrorf("%s() got an unexpected keyword argument '%s'", c.name, kw.name)
		}
		if !p.isAbsent(i) {
			return nil, runtimeErrorf("%s() got multiple values for argument '%s'", c.name, kw.name)
		}
		p.values[i] = kw.value
	}
	for i := range required {
		if p.isAbsent(i) {
			return nil, runtimeErrorf("%s() missing required argument '%s'", c.name, names[i])
		}
	}
	return p, nil
}

// isAbsent reports whether parameter i has no argument. none is an argument.
func (p *params) isAbsent(i int) bool { return p.values[i] == absent{} }

// orDefault returns parameter i, or fallback if it has no argument.
func (p *params) orDefault(i int, fallback value) value {
	if p.isAbsent(i) {
		return fallback
	}
	return p.values[i]
}

// int returns parameter i, which must be an integer, or fallback if it has no argument.
func (p *params) int(i, fallback int) (int, error) {
	if p.isAbsent(i) {
		return fallback, nil
	}
	n, _, isInt, ok := number(p.values[i])
	if !ok || !isInt {
		return 0, runtimeErrorf("%s(): argument '%s' must be an integer, not %s", p.name, p.names[i], typeName(p.values[i]))
	}
	return int(min(max(n, math.MinInt), math.MaxInt)), nil // int may have 32 bits
}

// text returns parameter i, which must be a string, or fallback if it has no argument.
func (p *params) text(i int, fallback string) (string, error) {
	if p.isAbsent(i) {
		return fallback, nil
	}
	s, ok := plain(p.values[i]).(string)
	if !ok {
		return "", runtimeErrorf("%s(): argument '%s' must be str, not %s", p.name, p.names[i], typeName(p.values[i]))
	}
	return s, nil
}

// flag returns the truth value of parameter i, or false if it has no argument.
func (p *params) flag(i int) bool { return !p.isAbsent(i) && truthy(p.values[i]) }

// evalArguments evaluates an argument list and expands *args and **kwargs.
func (r *renderer) evalArguments(a *arguments, s *scope) ([]value, []keyword, error) {
	var args []value
	var keywords []keyword
	if len(a.positional) > 0 {
		var err error
		if args, err = r.evalAll(a.positional, s); err != nil {
			return nil, nil, err
		}
	}
	for _, kw := range a.keywords {
		v, err := r.eval(kw.value, s)
		if err != nil {
			return nil, nil, err
		}
		keywords = append(keywords, keyword{kw.name, v})
	}
	if a.star != nil {
		v, err := r.eval(a.star, s)
		if err != nil {
			return nil, nil, err
		}
		more, err := r.collect(v)
		if err != nil {
			return nil, nil, err
		}
		// As in Python, *args follow the positional arguments even if keywords are
		// between them.
		args = append(args, more...)
	}
	if a.doubleStar != nil {
		more, err := r.spreadKeywords(a.doubleStar, s)
		if err != nil {
			return nil, nil, err
		}
		keywords = append(keywords, more...)
	}
	return args, keywords, nil
}

// spreadKeywords evaluates **x.
func (r *renderer) spreadKeywords(x expr, s *scope) ([]keyword, error) {
	v, err := r.eval(x, s)
	if err != nil {
		return nil, err
	}
	d, ok := v.(*dict)
	if !ok {
		return nil, runtimeErrorf("the argument after ** must be a mapping, not %s", typeName(v))
	}
	if err := r.chargeSlots(2 * len(d.keys)); err != nil {
		return nil, err
	}
	keywords := make([]keyword, len(d.keys))
	for i, key := range d.keys {
		name, ok := key.(string)
		if !ok {
			return nil, runtimeErrorf("keywords must be strings")
		}
		keywords[i] = keyword{name, d.values[i]}
	}
	return keywords, nil
}

// evalCall evaluates a call. caller is the body of a call block, or nil.
func (r *renderer) evalCall(x *callExpr, s *scope, caller *macro) (value, error) {
	fn, err := r.eval(x.fn, s)
	if err != nil {
		return nil, err
	}
	args, keywords, err := r.evalArguments(&x.args, s)
	if err != nil {
		return nil, err
	}
	if caller != nil {
		keywords = append(keywords, keyword{"caller", caller})
	}
	return r.callValue(fn, args, keywords)
}

// callValue calls fn with the given arguments.
func (r *renderer) callValue(fn value, args []value, keywords []keyword) (value, error) {
	switch fn := fn.(type) {
	case *function:
		return fn.call(&call{r, fn.name, args, keywords})
	case *macro:
		return r.callMacro(fn, args, keywords)
	case *loop:
		return fn.recurse(&call{r, "loop", args, keywords})
	case *undefined:
		return nil, fn.err()
	}
	return nil, runtimeErrorf("'%s' object is not callable", typeName(fn))
}

// err returns the error for the use of u.
func (u *undefined) err() error { return runtimeErrorf("%s", u.reason) }

// macro is a macro or the body of a call block, with the scope of its definition.
type macro struct {
	def   *macroDef
	scope *scope
}

// callMacro executes a macro and returns its text.
func (r *renderer) callMacro(m *macro, args []value, keywords []keyword) (value, error) {
	s := newScope(m.scope)
	if err := r.bindMacro(m.def, s, args, keywords); err != nil {
		return nil, err
	}
	return r.capture(m.def.body, s)
}

// bindMacro binds the parameters of a macro in s. A default may refer to earlier
// parameters, so bindMacro evaluates the defaults in s and in order.
func (r *renderer) bindMacro(def *macroDef, s *scope, args []value, keywords []keyword) error {
	used := make([]bool, len(keywords))
	explicitCaller := false
	for i, prm := range def.params {
		explicitCaller = explicitCaller || prm.name == "caller"
		v, given := value(nil), i < len(args)
		if given {
			v = args[i]
		} else {
			for k, kw := range keywords {
				if kw.name == prm.name {
					v, given, used[k] = kw.value, true, true
				}
			}
		}
		if !given {
			var err error
			if v, err = r.macroDefault(prm, s); err != nil {
				return err
			}
		}
		s.set(prm.name, v)
	}
	return r.bindExtras(def, s, args, keywords, used, explicitCaller)
}

// macroDefault returns the default of a parameter. A parameter without a default
// becomes an undefined value, which fails when it is used.
func (r *renderer) macroDefault(prm param, s *scope) (value, error) {
	if prm.fallback != nil {
		return r.eval(prm.fallback, s)
	}
	return &undefined{reason: "parameter " + quote(prm.name) + " was not provided"}, nil
}

// bindExtras binds caller, kwargs and varargs if the body mentions them. It returns an
// error for arguments without a parameter.
func (r *renderer) bindExtras(def *macroDef, s *scope, args []value, keywords []keyword, used []bool, explicitCaller bool) error {
	if def.usesCaller && !explicitCaller {
		s.set("caller", &undefined{reason: "No caller defined"})
	}
	extra := newDict()
	for k, kw := range keywords {
		switch {
		case used[k]:
		case kw.name == "caller" && def.usesCaller && !explicitCaller:
			s.set("caller", kw.value)
		case def.usesKwargs:
			if err := extra.set(kw.name, kw.value); err != nil {
				return err
			}
		default:
			return runtimeErrorf("macro %s takes no keyword argument %s", quote(def.name), quote(kw.name))
		}
	}
	if def.usesKwargs {
		s.set("kwargs", extra)
	}
	rest := args[min(len(def.params), len(args)):]
	if def.usesVarargs {
		s.set("varargs", &tuple{items: rest})
	} else if len(rest) > 0 {
		return runtimeErrorf("macro %s takes not more than %d argument(s)", quote(def.name), len(def.params))
	}
	return nil
}
