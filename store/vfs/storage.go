package vfs

// A Storage is what files of a directory are stored on. Fields that the system does not tell are empty.
type Storage struct {
	FileSystem string // such as ext4
	Name       string // of the block device, such as nvme0n1
	Kind       string // such as "NVMe"
}
