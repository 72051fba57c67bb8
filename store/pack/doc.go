// Package pack reads and writes packs: models in the form in which the engine
// uses them, written once by an import and only read afterwards.
//
// A pack holds the weights in sections, one for each layer and one or two for
// what stands around the layers. A section is what a frame of memory holds when
// the layer is ready to run, byte for byte: matrices in the tiles of package
// tiled, or in rows where their type has no tiles, vectors as float32. Loading a
// layer is one long read. Beside them lie attachments: the files that describe
// the model, so that a pack needs nothing else.
//
// Every block has a checksum, which is compared whenever it is read: damage
// is an error that names the place and never becomes a wrong weight. FORMAT.md
// specifies the file.
//
// A [File] is also a [store.Source] that gives the bytes of each tensor as the
// original model file had them, whatever their order in the pack. Packs lose
// nothing.
//
// [Cache] is a directory of packs with a bound on its size.
package pack
