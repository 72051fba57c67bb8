package w8a8

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// File is an open calibration. It is safe for concurrent use until Close.
type File struct {
	Index
	// Checksum is the checksum of the index. It distinguishes calibrations, including those
	// of the same model.
	Checksum uint64
	path     string
	file     vfs.File
}

const recalibrateHint = "calibrate the model again"

// Open opens a calibration. It reads and checks everything except the columns.
func Open(fsys vfs.FS, path string) (*File, error) {
	file, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, file: file}
	if err := f.readIndex(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

// readIndex reads and checks the header and the index.
func (f *File) readIndex() error {
	size, err := f.file.Size()
	if err != nil {
		return err
	}
	indexBytes, err := f.readHeader(size)
	if err != nil {
		return err
	}
	index := make([]byte, indexBytes)
	if _, err := f.file.ReadAt(index, headerBytes); err != nil {
		return err
	}
	if checksum(index) != f.Checksum {
		return f.formatError(headerBytes, "index", "is damaged", recalibrateHint, store.ErrFormat)
	}
	if field, reason := f.decode(index, size); field != "" {
		return f.formatError(headerBytes, field, reason, recalibrateHint, store.ErrFormat)
	}
	return nil
}

// readHeader reads and checks the header of a file of fileBytes. It sets f.Checksum and
// returns the length of the index.
func (f *File) readHeader(fileBytes int64) (indexBytes uint64, err error) {
	head := make([]byte, headerBytes)
	if n, err := f.file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	} else if n < headerBytes || string(head[:8]) != magic {
		return 0, f.formatError(0, "header", "is not the header of a calibration", "use a file that llmrun calibrate has written", store.ErrFormat)
	}
	number := func(at int) uint64 { return binary.LittleEndian.Uint64(head[at:]) }
	indexBytes, f.Checksum = number(16), number(24)
	switch version := binary.LittleEndian.Uint32(head[8:]); {
	case version != Version:
		return 0, f.formatError(8, "version", fmt.Sprintf("%d is unknown; this program reads %d", version, Version), recalibrateHint, store.ErrUnsupported)
	case checksum(head[:checksummedBytes]) != number(checksummedBytes):
		return 0, f.formatError(0, "header", "is damaged", recalibrateHint, store.ErrFormat)
	case number(32) != uint64(fileBytes):
		return 0, f.formatError(32, "length", fmt.Sprintf("the file has %d bytes, not %d", fileBytes, number(32)), recalibrateHint, store.ErrTruncated)
	case indexBytes > maxIndexBytes || indexBytes > uint64(fileBytes-headerBytes):
		return 0, f.formatError(16, "index", fmt.Sprintf("has %d bytes, more than the file or the format allows", indexBytes), recalibrateHint, store.ErrFormat)
	}
	return indexBytes, nil
}

// decode reads an index of a file of fileBytes. It returns the faulty field and the reason,
// or "". It checks each input before it allocates memory for the next: a few bytes of JSON
// can expand to many.
func (x *Index) decode(index []byte, fileBytes int64) (field, reason string) {
	document := struct {
		*Index
		Inputs json.RawMessage `json:"inputs"` // hides Index.Inputs, so that decode can read it input by input
	}{Index: x}
	if err := json.Unmarshal(index, &document); err != nil {
		return "index", err.Error()
	}
	list := json.NewDecoder(bytes.NewReader(document.Inputs))
	if begin, err := list.Token(); err != nil || begin != json.Delim('[') {
		return "inputs", "is not a list"
	}
	var text json.RawMessage
	for seen := map[string]bool{}; list.More(); {
		n := len(x.Inputs)
		if err := list.Decode(&text); err != nil {
			return "inputs", err.Error()
		}
		if len(text) > maxInputBytes {
			return fmt.Sprintf("inputs[%d]", n), fmt.Sprintf("has %d bytes, more than %d", len(text), maxInputBytes)
		}
		var in Input
		if err := json.Unmarshal(text, &in); err != nil {
			return fmt.Sprintf("inputs[%d]", n), err.Error()
		}
		if field, reason = in.check(n, fileBytes, seen); field != "" {
			return field, reason
		}
		x.Inputs = append(x.Inputs, in)
	}
	return "", ""
}

func (f *File) formatError(off int64, field, reason, hint string, kind error) error {
	return &store.FormatError{Path: f.path, Off: off, Field: field, Reason: reason, Hint: hint, Kind: kind}
}

// Path returns the path that was passed to Open.
func (f *File) Path() string { return f.path }

// Column reads a column of a matrix. raw is a buffer of Matrix.ColumnBytes bytes. Column
// does not allocate.
func (f *File) Column(m *Matrix, channel int, dst []float32 /* [rows] */, raw []byte) error {
	raw = raw[:m.ColumnBytes()]
	off := m.ColumnsAt + int64(channel)*int64(len(raw))
	if _, err := f.file.ReadAt(raw, off); err != nil {
		return err
	}
	data := raw[:len(raw)-checksumBytes]
	if checksum(data) != binary.LittleEndian.Uint64(raw[len(data):]) {
		return f.formatError(off, fmt.Sprintf("column %d of %s", channel, m.Name), "is damaged", recalibrateHint, store.ErrFormat)
	}
	t, _ := quant.ParseType(m.Type) // check has validated the type
	quant.DequantRow(t, dst[:m.Rows], data[:m.Rows*t.BlockBytes()])
	return nil
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }
