package serve

import (
	"errors"

	"github.com/llmrun/llmrun"
)

// anyObject is the schema of answers that are any object of JSON.
const anyObject = `{"type":"object"}`

// readResponseFormat reads response_format, in which a schema is an object of its own. field is that of the schema.
func readResponseFormat(o *object, to *llmrun.GenerateOptions) (field string) {
	format := o.inner("response_format")
	schema := format.inner("json_schema")
	readFormat(format, schema, to)
	return schema.path + "schema"
}

// readFormat reads what an answer is held to; schema is the object that has the schema. A schema is enforced whether it is strict or not.
func readFormat(format, schema *object, to *llmrun.GenerateOptions) (kind string) {
	switch kind = format.text("type"); kind {
	case "", "text":
	case "json_object":
		to.Schema = anyObject
	case "json_schema":
		if schema.need("schema"); schema.has("schema") {
			schema.inner("schema") // an object
			to.Schema = string(schema.raw("schema"))
		}
	default:
		format.fail("type", "must be text, json_object or json_schema")
	}
	return kind
}

// refusedFormat returns the error of a request whose schema, in a field, may be the reason. A schema is compiled once, by the engine, which
// reserves memory for it.
func refusedFormat(err error, field string) error {
	if field == "" || !errors.Is(err, llmrun.ErrConstraint) {
		return err
	}
	return &fieldError{field, "is refused: " + err.Error()}
}

// readOllamaFormat reads format: json, or a schema.
func readOllamaFormat(o *object, to *llmrun.GenerateOptions) {
	const name = "format"
	switch {
	case !o.has(name):
	case o.kind(name) != isText:
		o.inner(name) // an object
		to.Schema = string(o.raw(name))
	default:
		if kind := o.text(name); kind == "json" {
			to.Schema = anyObject
		} else if kind != "" {
			o.fail(name, "must be json, or a JSON schema")
		}
	}
}
