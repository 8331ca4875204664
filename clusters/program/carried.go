//go:build !release || !(amd64 || arm64)

package program

// carried is empty in builds other than `make release`.
const carried = ""
