"""Makes DeepSpeed use AnyAccel in every process of the tests, including the fork server."""
import _anyaccel_deepspeed

_anyaccel_deepspeed.install()
