package segment

import (
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// unsealed turns the error of a file that cannot be decrypted into a format error: it is damage
// like any other, and heals like any other. It returns other errors unchanged.
func unsealed(path string, err error) error {
	if !errors.Is(err, vfs.ErrSeal) || errors.Is(err, store.ErrFormat) {
		return err
	}
	return &store.FormatError{Path: path, Field: "encryption", Reason: err.Error(), Kind: store.ErrFormat}
}

// sealedPages is the encrypted file of a segment. It names the page that cannot be decrypted.
type sealedPages struct {
	vfs.Encrypted
	path string
	*header
}

// ReadAt returns a CorruptError for bytes that are not those that were encrypted.
func (f *sealedPages) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.Encrypted.ReadAt(p, off)
	return n, f.named(err, off+int64(n))
}

// Check is ReadAt for bytes that were read from the disk.
func (f *sealedPages) Check(p []byte, off int64) error {
	return f.named(f.Encrypted.Check(p, off), off)
}

// named adds the page at an offset to an error about encrypted bytes.
func (f *sealedPages) named(err error, off int64) error {
	if !errors.Is(err, vfs.ErrSeal) {
		return err
	}
	corrupt := &CorruptError{Path: f.path, Off: off}
	for layer, size := range f.layout.PageBytes {
		if from, run := f.run(layer); size > 0 && off >= from && off < from+alignUp(run) {
			corrupt.Layer, corrupt.Page = layer, min(int(off-from)/size, f.pages-1)
		}
	}
	return fmt.Errorf("%w: %w", corrupt, err)
}

// Foreign counts the files of segments and of sessions that this directory ignores: those that
// were encrypted with another key or not at all, and encrypted ones if it has no key.
func (d *Dir) Foreign() (segments, sessions int, err error) {
	segments, err = vfs.Foreign(d.fsys, d.segmentsPath())
	sessions, failed := vfs.Foreign(d.fsys, d.sessionsPath())
	return segments, sessions, errors.Join(err, failed)
}
