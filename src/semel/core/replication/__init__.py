"""The agreement among replicas of one partition: the ISR, the high watermark, the offset at which a follower cuts its log."""
