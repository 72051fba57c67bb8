package serve

import "github.com/llmrun/llmrun"

// anyObject is the schema of answers that are any object of JSON.
const anyObject = `{"type":"object"}`

// readResponseFormat reads response_format, in which a schema is an object of its own.
func readResponseFormat(o *object, to *llmrun.GenerateOptions) {
	format := o.inner("response_format")
	readFormat(format, format.inner("json_schema"), to)
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
			to.Schema = string(schema.fields["schema"])
			checkFormat(schema, "schema", to)
		}
	default:
		format.fail("type", "must be text, json_object or json_schema")
	}
	return kind
}

// checkFormat refuses a schema that is not supported.
func checkFormat(o *object, name string, to *llmrun.GenerateOptions) {
	if err := to.CheckConstraint(); err != nil {
		o.fail(name, "is refused: "+err.Error())
	}
}

// readOllamaFormat reads format: json, or a schema.
func readOllamaFormat(o *object, to *llmrun.GenerateOptions) {
	const name = "format"
	switch {
	case !o.has(name):
	case o.fields[name][0] != '"':
		o.inner(name) // an object
		to.Schema = string(o.fields[name])
		checkFormat(o, name, to)
	default:
		if kind := o.text(name); kind == "json" {
			to.Schema = anyObject
		} else if kind != "" {
			o.fail(name, "must be json, or a JSON schema")
		}
	}
}
