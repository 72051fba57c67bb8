package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// TensorData is a tensor to write.
type TensorData struct {
	Name  string
	Type  quant.Type // F32, F16 or BF16
	Shape []int      // outermost dimension first
	Data  []byte     // little-endian; its length must match Type and Shape
}

// headerAlignment is the multiple to which the reference implementation pads the header, so
// that the data is aligned for any element type.
const headerAlignment = 8

// Write writes a single file atomically.
func Write(fsys vfs.FS, path string, tensors []TensorData) error {
	head, err := encodeHeader(tensors)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return vfs.WriteAtomic(fsys, path, func(w io.Writer) error {
		if _, err := w.Write(head); err != nil {
			return err
		}
		for _, t := range tensors {
			if _, err := w.Write(t.Data); err != nil {
				return err
			}
		}
		return nil
	})
}

// encodeHeader returns the length field and the padded JSON.
func encodeHeader(tensors []TensorData) ([]byte, error) {
	type description struct {
		Dtype   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	entries := map[string]any{metadataName: map[string]string{"format": "pt"}}
	end := int64(0)
	for _, t := range tensors {
		dtype, ok := dtypeFor(t.Type)
		if !ok {
			return nil, fmt.Errorf("tensor %q: safetensors has no dtype for %v", t.Name, t.Type)
		}
		size, fits, err := store.Bytes(t.Type, t.Shape)
		if err != nil || !fits || size != int64(len(t.Data)) {
			return nil, fmt.Errorf("tensor %q: %d bytes do not match shape %v of %v", t.Name, len(t.Data), t.Shape, t.Type)
		}
		if _, duplicate := entries[t.Name]; duplicate {
			return nil, fmt.Errorf("tensor %q occurs twice", t.Name)
		}
		entries[t.Name] = description{dtype, append([]int{}, t.Shape...), [2]int64{end, end + size}}
		end += size
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return nil, err
	}
	padding := -len(text) & (headerAlignment - 1)
	head := binary.LittleEndian.AppendUint64(nil, uint64(len(text)+padding))
	return append(append(head, text...), strings.Repeat(" ", padding)...), nil
}
