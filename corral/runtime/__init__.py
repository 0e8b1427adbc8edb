"""What a controller needs: informers, work queue, manager, leader election, events."""
