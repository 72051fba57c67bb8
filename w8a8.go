package llmrun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/calib"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/build"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/store/w8a8"
)

// CalibrationSuffix is what [Calibrate] adds to the name of a model for that of its
// calibration.
const CalibrationSuffix = w8a8.Suffix

// W8A8 asks for the arithmetic of neural processors, see [Options].W8A8.
type W8A8 struct {
	// Calibration is the file that Calibrate wrote; "" is the one beside the model,
	// in Options.FS if that is set.
	Calibration string
	// Outliers is the part of the inputs of matrices whose outliers are computed
	// beside the integers: those where they matter most. 0 means 0.15, which was
	// published to suffice, and all others that would lose more than 2 of their 8
	// bits; 1 means all.
	Outliers float64
	// NoOutlierPath computes no outliers at all.
	NoOutlierPath bool
}

// CalibrateOptions are the choices of Calibrate.
type CalibrateOptions struct {
	FS       fs.FS  // where the model is; nil is the operating system
	To       string // file to write; "" is beside the model, without FS
	Threads  int    // 0 means one for each fast core
	Adapters []string
	// OutlierFraction is the part of an input's elements that may lie beyond its scale;
	// 0 means 0.003, or as much as 4 channels where that is more, or up to 0.1 where many
	// lie far beyond all others. Fewer outliers mean coarser steps for all others.
	OutlierFraction float64
	// StoredFraction is the part of the inputs for which float columns are stored: no more
	// can have a shadow later. 0 means all, which takes as much as the model.
	StoredFraction float64
	// Progress, if set, is told the tokens that were read; a long text is read twice, and
	// so is any if many outliers are found. Then Written is told the bytes of columns.
	Progress, Written func(Progress)
}

// Calibration is what Calibrate found out about a model.
type Calibration struct {
	Path   string             `json:"path"`
	Bytes  int64              `json:"bytes"`
	Tokens int                `json:"tokens"`
	Inputs []CalibrationInput `json:"inputs"` // those first whose outliers matter most
}

// CalibrationInput is what Calibrate found out about the input of some matrices.
type CalibrationInput struct {
	Name        string  `json:"name"` // of the first matrix
	Channels    int     `json:"channels"`
	Scale       float64 `json:"scale"`      // of an integer step
	Max         float64 `json:"max"`        // largest magnitude
	Importance  float64 `json:"importance"` // how far that is beyond 127 steps
	Loss        float64 `json:"loss"`       // how many times larger errors are without a shadow
	Outliers    float64 `json:"outliers"`   // share of the elements
	Ever        int     `json:"ever"`       // channels that ever had one
	Hot         int     `json:"hot"`        // those that stay in memory
	HotFraction float64 `json:"hot_share"`  // of the outliers that they have
	Stored      bool    `json:"stored"`     // float columns are in the file
}

// Calibrate reads a text with the model at path and finds out how its activations
// can be rounded to 8 bits with one scale for each input, and what then lies beyond:
// what [Options].W8A8 needs. The file is there completely or not at all.
func Calibrate(ctx context.Context, path, text string, o CalibrateOptions) (done Calibration, err error) {
	if err := checkFraction("OutlierShare", o.OutlierFraction); err != nil {
		return done, err
	}
	if err := checkFraction("Shadows", o.StoredFraction); err != nil {
		return done, err
	}
	if o.To == "" && o.FS != nil {
		return done, fmt.Errorf("%w: To: nothing can be written beside a model in FS: name the file", ErrOptions)
	}
	fsys := (&Options{FS: o.FS}).fsys()
	f, err := openMerged(fsys, path, o.Adapters, "")
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	ids, err := textTokens(f, text)
	if err != nil {
		return done, err
	}
	index, err := exec.MeasureOutliers(ctx, f, ids, exec.Options{Exact: true, Threads: o.Threads},
		exec.OutlierOptions{Made: build.Name(), Fraction: o.OutlierFraction, Progress: progressFunc(o.Progress)})
	if err != nil {
		return done, err
	}
	if done.Path = o.To; done.Path == "" {
		done.Path = path + CalibrationSuffix
	}
	kept := map[string]bool{}
	for in, keep := range exec.OutlierFraction(defaultFraction(o.StoredFraction, 1)).Of(index.Inputs) {
		kept[in.Name] = keep
		done.Inputs = append(done.Inputs, CalibrationInput{
			Name: in.Name, Channels: in.Cols, Scale: float64(in.Scale), Max: float64(in.Max), Importance: in.Importance(), Loss: float64(in.ClippedErrorRatio),
			Outliers: float64(in.Outliers) / float64(in.Elements), Ever: len(in.Channels), Hot: in.Hot, HotFraction: in.HotFraction(),
			Stored: keep,
		})
	}
	keep := func(in *w8a8.Input) bool { return kept[in.Name] }
	if err := calib.WriteCalibration(ctx, f, vfs.OS(), done.Path, index, keep, progressFunc(o.Written)); err != nil {
		return done, err
	}
	info, err := vfs.OS().Stat(done.Path)
	done.Bytes, done.Tokens = info.Size, index.Tokens
	return done, err
}

// textTokens returns the tokens of a text that a model is calibrated with.
func textTokens(f *modelfile.Files, text string) ([]int32, error) {
	t, err := f.Tokenizer()
	if errors.Is(err, modelfile.ErrNoTokenizer) {
		return nil, fmt.Errorf("%w: calibrating reads a text", ErrNoTokenizer)
	}
	if err != nil {
		return nil, err
	}
	ids := (&Tokenizer{t}).Encode(text, EncodeOptions{})
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: the text to calibrate with is empty", ErrOptions)
	}
	return ids, nil
}

func checkFraction(name string, v float64) error {
	if !(v >= 0 && v <= 1) {
		return fmt.Errorf("%w: %s is %g; it must lie between 0 and 1", ErrOptions, name, v)
	}
	return nil
}

// defaultFraction returns a share, or another one in place of 0.
func defaultFraction(v, zero float64) float64 {
	if v == 0 {
		return zero
	}
	return v
}

// validate refuses what no arithmetic has.
func (w *W8A8) validate(o *Options) error {
	if w == nil {
		return nil
	}
	if o.Quantize != "" || o.Exact {
		return fmt.Errorf("%w: W8A8 rounds weights and activations in its own way: leave Quantize and Exact out", ErrOptions)
	}
	return checkFraction("W8A8.Shadows", w.Outliers)
}

// open opens the calibration of the model and makes its weights appear in 8 bits.
// fsys is where the model is.
func (w *W8A8) open(f *modelfile.Files, fsys vfs.FS) (*exec.W8A8, error) {
	path := w.Calibration
	if path == "" {
		path = f.Path + CalibrationSuffix
	} else {
		fsys = vfs.OS()
	}
	c, err := w8a8.Open(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w (llmrun calibrate writes it)", err)
	}
	if err != nil {
		return nil, err
	}
	if err := calib.UsePerRowInt8(f, c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	perTensor := &exec.W8A8{Calibration: c, Outliers: exec.DefaultOutlierChoice}
	switch {
	case w.NoOutlierPath:
		perTensor.Outliers = exec.OutlierFraction(0)
	case w.Outliers != 0:
		perTensor.Outliers = exec.OutlierFraction(w.Outliers)
	}
	return perTensor, nil
}

// OutlierUse counts what the outlier paths of W8A8 computed.
type OutlierUse struct {
	Tokens   int64 `json:"tokens"`         // rows of inputs that have an outlier path
	Marked   int64 `json:"marked"`         // those that had outliers
	Outliers int64 `json:"outliers"`       // elements
	Hot      int64 `json:"hot"`            // columns that were in memory
	Fetched  int64 `json:"fetched"`        // columns that were read from flash
	Read     int64 `json:"read_bytes"`     // of those
	Resident int64 `json:"resident_bytes"` // of columns that stay in memory
	All      int64 `json:"all_bytes"`      // of columns of all matrices with an outlier path, as they would be in memory
}

// OutlierUse returns what the outlier paths of all sessions computed so far.
func (e *Engine) OutlierUse() OutlierUse { return OutlierUse(e.model.OutlierStats()) }
