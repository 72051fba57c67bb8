package constrain

import (
	"fmt"
	"slices"
	"strconv"
)

// values compiles enum and const, with those of their values that the other keywords allow.
func (c *schemaCompiler) values(v *value, path string) (expr, error) {
	list := v.get("enum")
	if list != nil && list.kind != jsonArray {
		return nothing, refuse(below(path, "enum"), "must be a list")
	}
	var allowed []*value
	if list != nil {
		allowed = list.items
	}
	if one := v.get("const"); one != nil {
		if list != nil && !slices.ContainsFunc(allowed, one.equal) {
			return nothing, nil
		}
		allowed = []*value{one}
	}
	if len(allowed) > maxChoice {
		return nothing, fmt.Errorf("%w: schema, %s: it has more than %d values", ErrComplex, path, maxChoice)
	}
	rest := &restSchema{value: v.without("enum").without("const")}
	var ways []expr
	for _, item := range allowed {
		ok, err := c.allows(rest, item, path)
		if err != nil {
			return nothing, err
		}
		if ok {
			ways = append(ways, c.m.literal(item.String()))
		}
	}
	return c.m.choice(ways...), c.m.err
}

// restSchema is what a schema says beside its values.
type restSchema struct {
	*value
	m *machine // compiled when it is needed, once for all values
}

// allows reports whether a schema allows a value.
func (c *schemaCompiler) allows(rest *restSchema, item *value, path string) (bool, error) {
	if len(rest.members) == 0 {
		return true, nil
	}
	if !slices.Contains(statedTypes(rest.value), item.typeName()) {
		return false, nil
	}
	if item.kind >= jsonArray {
		if len(rest.members) == 1 && rest.get("type") != nil {
			return true, nil
		}
		return false, refuse(path, "lists and objects in enum or const beside %s are not supported", rest.members[0].name)
	}
	if rest.m == nil {
		m := newMachine(c.m.meter)
		e, err := newSchemaCompiler(m, c.root, true).schema(rest.value, path)
		if err == nil {
			err = m.complete(e, func(int) string { return path })
		}
		if err != nil {
			return false, err
		}
		m.most = maxStates
		rest.m = m
	}
	ok := rest.m.accepts(item.String())
	return ok, rest.m.err
}

// count reads a keyword that is a number of characters, items or properties.
func count(v *value, name, path string, missing int) (int, error) {
	given := v.get(name)
	if given == nil {
		return missing, nil
	}
	if given.kind == jsonNumber {
		if n, err := strconv.Atoi(plainNumber(given.text)); err == nil && n >= 0 && n <= maxBound {
			return n, nil
		}
	}
	return 0, refuse(below(path, name), "%s is not a whole number from 0 to %d", given, maxBound)
}

// counts reads two keywords that bound a number.
func counts(v *value, low, high, path string) (least, most int, err error) {
	if least, err = count(v, low, path, 0); err == nil {
		most, err = count(v, high, path, unlimited)
	}
	return least, most, err
}

// str compiles what a schema says about strings.
func (c *schemaCompiler) str(v *value, path string) (expr, error) {
	low, high, err := counts(v, "minLength", "maxLength", path)
	if err != nil {
		return nothing, err
	}
	var all []expr
	if pattern := v.get("pattern"); pattern != nil {
		e, err := c.pattern(pattern, below(path, "pattern"))
		if err != nil {
			return nothing, err
		}
		all = append(all, e)
	}
	if format := v.get("format"); format != nil {
		e, err := c.format(format)
		if err != nil {
			return nothing, err
		}
		if e != nothing {
			all = append(all, e)
		}
	}
	if len(all) == 0 || low > 0 || high != unlimited {
		all = append(all, c.m.repeat(c.anyRune(), low, high))
	}
	mark := c.m.literal(`"`)
	return c.m.sequence(mark, c.m.both(all...), mark), c.m.err
}

// pattern compiles a regular expression that a part of the string matches.
func (c *schemaCompiler) pattern(pattern *value, path string) (expr, error) {
	if pattern.kind != jsonString {
		return nothing, refuse(path, "must be a string")
	}
	p := &regexpParser{text: pattern.text, spelling: c.spelling}
	e, err := p.parse(true)
	if err != nil {
		return nothing, refuse(path, "%v", err)
	}
	return e, nil
}

// format compiles a format. Some languages are smaller than the format: all their texts have it. nothing means that the format
// is one of numbers.
func (c *schemaCompiler) format(format *value) (expr, error) {
	if slices.Contains(numberFormats, format.text) {
		return nothing, nil
	}
	p := &regexpParser{text: formats[format.text], spelling: c.spelling}
	return p.parse(false)
}

// knownFormat reports whether a format is supported. One that is not may be about any type.
func knownFormat(format *value) bool {
	return format.kind == jsonString && (formats[format.text] != "" || slices.Contains(numberFormats, format.text))
}

const (
	dayPattern = `(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))` +
		`|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)`
	timePattern     = `(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])`
	durationTime    = `T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S)`
	durationDate    = `(?:[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?|[0-9]{1,9}M(?:[0-9]{1,9}D)?|[0-9]{1,9}D)`
	labelPattern    = `[a-zA-Z0-9](?:[a-zA-Z0-9]|-[a-zA-Z0-9]){0,20}`
	hostPattern     = labelPattern + `(?:\.` + labelPattern + `){0,4}`
	bytePattern     = `(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])`
	addressPattern  = bytePattern + `(?:\.` + bytePattern + `){3}`
	hexGroup        = `[0-9a-fA-F]{1,4}`
	longAddress     = hexGroup + `(?::` + hexGroup + `){7}`
	shortenedIn     = `::(?:` + hexGroup + `(?::` + hexGroup + `){0,5})?|` + hexGroup + `(?::` + hexGroup + `){0,2}::(?:` + hexGroup + `(?::` + hexGroup + `){0,2})?`
	emailPattern    = `[a-zA-Z0-9_+-]{1,30}(?:\.[a-zA-Z0-9_+-]{1,20}){0,4}@` + labelPattern + `(?:\.` + labelPattern + `){1,4}` // validators ask for a dot
	uriPath         = `(?:/[a-zA-Z0-9._~!$&'()*+,;=:@-]*)*`
	uriQuery        = `[a-zA-Z0-9._~!$&'()*+,;=:@/?-]*`
	uriPattern      = `[a-z][a-z0-9+.-]{1,15}://` + hostPattern + `(?::[0-9]{1,5})?` + uriPath + `(?:\?` + uriQuery + `)?(?:#` + uriQuery + `)?`
	uuidPattern     = `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`
	durationPattern = `P(?:` + durationDate + `(?:` + durationTime + `)?|` + durationTime + `|[0-9]{1,9}W)`
)

// formats are those of strings, as regular expressions.
var formats = map[string]string{
	"date": dayPattern, "time": timePattern, "date-time": dayPattern + "T" + timePattern, "duration": durationPattern,
	"email": emailPattern, "hostname": hostPattern, "ipv4": addressPattern, "ipv6": longAddress + "|" + shortenedIn,
	"uri": uriPattern, "uuid": uuidPattern,
}

// numberFormats are those of OpenAPI.
var numberFormats = []string{"int32", "int64", "float", "double"}
