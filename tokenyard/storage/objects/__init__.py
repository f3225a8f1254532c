"""Objects below a URL: S3, Google Cloud Storage, Azure, the Hugging Face Hub, plain HTTP, and memory.

One client for all, obstore (``pip install 'tokenyard[cloud]'``). Every call is tried again where that can help, has a
deadline over all its attempts, and ends in what was asked for or in an error that names the object and the cause.
"""

from tokenyard.storage.objects.client import Objects, open_objects
from tokenyard.storage.objects.info import ObjectInfo
from tokenyard.storage.objects.patience import Patience
from tokenyard.storage.objects.urls import SCHEMES, is_url

__all__ = ["SCHEMES", "ObjectInfo", "Objects", "Patience", "is_url", "open_objects"]
