package randomops

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
	"github.com/rsmhost/rsmhost/plugins/layout/kafkalocal"
)

// store is where uploads put their objects.
type store interface {
	put(s kafkabytes.Segment) error
	remove(s *kafkabytes.Segment) error
}

// memory is the store of the placement of the same name.
type memory struct{ *memrsm.Store }

func (m memory) put(s kafkabytes.Segment) error {
	m.Put(&s)
	return nil
}

func (m memory) remove(s *kafkabytes.Segment) error {
	m.Remove(s.Meta.SegmentID)
	return nil
}

// folder is a store that localfs reads, as Kafka's LocalTieredStorage writes it.
type folder string

func (f folder) put(s kafkabytes.Segment) error {
	log, err := kafkalocal.LogPath(&s.Meta)
	if err != nil {
		return err
	}
	log = filepath.Join(string(f), kafkalocal.Folder, log)
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		return err
	}
	for suffix, b := range map[string][]byte{kafkalocal.LogSuffix: s.Log, ".index": s.OffsetIndex, ".txnindex": s.TxnIndex, ".leader_epoch_checkpoint": s.Epochs, ".snapshot": s.Snapshot} {
		if suffix == ".txnindex" && b == nil { // LocalTieredStorage writes none
			continue
		}
		if err := os.WriteFile(strings.TrimSuffix(log, kafkalocal.LogSuffix)+suffix, b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (f folder) remove(s *kafkabytes.Segment) error {
	log, err := kafkalocal.LogPath(&s.Meta)
	if err != nil {
		return err
	}
	log = filepath.Join(string(f), kafkalocal.Folder, log)
	for _, t := range append([]abi.IndexType{0}, abi.IndexTypes()...) {
		suffix := kafkalocal.LogSuffix
		if t != 0 {
			suffix, _ = kafkalocal.IndexSuffix(t)
		}
		if err := os.Remove(strings.TrimSuffix(log, kafkalocal.LogSuffix) + suffix); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}
