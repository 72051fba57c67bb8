package graph

// Element is the element type of a tensor, numbered as in ONNX.
type Element int32

// The element types in use.
const (
	Float Element = 1
	Uint8 Element = 2
	Int8  Element = 3
	Int32 Element = 6
)

// Size returns the bytes of one element.
func (e Element) Size() int {
	if e == Float || e == Int32 {
		return 4
	}
	return 1
}

// Tensor is a value of a graph. Tensors without data are inputs, outputs or
// external weights.
type Tensor struct {
	Name    string
	Element Element
	Dims    []int64
	Data    []byte
}

// Size returns the bytes of the tensor's elements.
func (t *Tensor) Size() int64 {
	n := int64(t.Element.Size())
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// attribute is a property of a node: an integer or a list of integers.
type attribute struct {
	name  string
	value int64
	list  []int64 // replaces value if not nil
}

// model is a graph with one input and one output.
type model struct {
	input, output Tensor
	constants     []Tensor // small ones, stored in the model
	weights       []Tensor // external, by name and shape
	nodes         message  // encoded fields of the graph
}

// domainContrib is the domain of the runtime's own operators.
const domainContrib = "com.microsoft"

// node adds an operation. Its inputs must be added before.
func (m *model) node(domain, op, output string, inputs []string, attributes ...attribute) string {
	m.nodes.message(1, func(n *message) {
		for _, name := range inputs {
			n.text(1, name)
		}
		n.text(2, output)
		n.text(3, output)
		n.text(4, op)
		for _, a := range attributes {
			n.message(5, a.write)
		}
		if domain != "" {
			n.text(7, domain)
		}
	})
	return output
}

// op adds a standard ONNX operation.
func (m *model) op(op, output string, inputs ...string) string {
	return m.node("", op, output, inputs)
}

// cast adds a type conversion.
func (m *model) cast(to Element, output, input string) string {
	return m.node("", "Cast", output, []string{input}, attribute{name: "to", value: int64(to)})
}

// constant adds a small tensor that is stored in the model.
func (m *model) constant(t Tensor) string {
	m.constants = append(m.constants, t)
	return t.Name
}

// number adds a scalar constant.
func (m *model) number(name string, v float32) string {
	return m.constant(Tensor{Name: name, Element: Float, Data: floatBytes(v)})
}

// The ONNX versions to write, which runtimes since 1.16 read.
const (
	formatVersion   = 8
	operatorVersion = 17
)

// bytes returns the model file.
func (m *model) bytes() []byte {
	var file message
	file.integer(1, formatVersion)
	file.text(2, "llmrun")
	file.message(7, func(g *message) {
		*g = append(*g, m.nodes...)
		g.text(2, "product")
		for _, t := range m.constants {
			g.message(5, func(w *message) {
				t.describe(w)
				w.bytes(9, t.Data)
			})
		}
		for _, t := range m.weights {
			g.message(5, func(w *message) {
				t.describe(w)
				// The location is never opened: the runtime has the data.
				w.message(13, func(e *message) {
					e.text(1, "location")
					e.text(2, t.Name)
				})
				w.integer(14, 1)
			})
		}
		g.message(11, m.input.declare)
		g.message(12, m.output.declare)
	})
	for _, set := range []struct {
		domain  string
		version int64
	}{{"", operatorVersion}, {domainContrib, 1}} {
		file.message(8, func(w *message) {
			w.text(1, set.domain)
			w.integer(2, set.version)
		})
	}
	return file
}

// write encodes the attribute as a message.
func (a attribute) write(w *message) {
	const integer, integers = 2, 7
	w.text(1, a.name)
	if a.list == nil {
		w.integer(3, a.value)
		w.integer(20, integer)
		return
	}
	for _, v := range a.list {
		w.integer(8, v)
	}
	w.integer(20, integers)
}

// describe encodes a stored tensor's type and name.
func (t *Tensor) describe(w *message) {
	for _, d := range t.Dims {
		w.integer(1, d)
	}
	w.integer(2, int64(t.Element))
	w.text(8, t.Name)
}

// declare encodes the type of an input or output.
func (t *Tensor) declare(w *message) {
	w.text(1, t.Name)
	w.message(2, func(w *message) {
		w.message(1, func(w *message) {
			w.integer(1, int64(t.Element))
			w.message(2, func(w *message) {
				for _, d := range t.Dims {
					w.message(1, func(w *message) { w.integer(1, d) })
				}
			})
		})
	})
}
